#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/net/http_client.h"
#include "cohort/engine/kubernetes/cluster_access.h"

namespace cohort::engine::kubernetes {

struct KubeAnswer {
  int status = 0;
  nlohmann::json body;  // a Status where the server refuses; null where it sent none

  bool is_good() const { return status >= 200 && status < 300; }
  std::string message() const;  // the server's own words: "jobs.batch "x" is forbidden (403)"
};

// Requests of a Kubernetes API server. Every call that Cohort makes may be made twice: objects have
// names, so what cannot be known (a connection that broke off) is tried again.
//
// Tried again until the deadline, with growing pauses: no connection, one that broke off, 408, 429
// and 503 (as long as Retry-After says), other 5xx, and 401, since a new token may be in its file.
// Any other answer is returned. A pause that the server asks for is kept past the deadline, where
// the call can be cancelled.
//
// Threads: any number may call it. Failure: PeerError that says what the last try met;
// HttpCancelled; AuthError where the server's certificate is not to be trusted.
class KubeClient {
 public:
  // Told, on the caller's thread, why a request is tried again.
  using OnTrouble = std::function<void(const std::string& what)>;

  // `cancel` must outlive it; null: calls end by their deadlines only.
  KubeClient(ClusterAccess access, const HttpCancel* cancel, OnTrouble on_trouble = {});

  const ClusterAccess& access() const { return access_; }

  // `path` begins with "/api"; a body is JSON of `type`.
  KubeAnswer call(const std::string& method, const std::string& path, const std::string& body,
                  Deadline deadline, const std::string& type = "application/json") const;
  KubeAnswer get(const std::string& path, Deadline deadline) const {
    return call("GET", path, "", deadline);
  }

  // An answer that comes by and by (a watch, a log): one try, whatever the status is.
  HttpReplyReader open(const std::string& path, Deadline deadline) const;

 private:
  HttpCall request(const std::string& method, const std::string& path) const;

  ClusterAccess access_;
  const HttpCancel* cancel_;
  OnTrouble on_trouble_;
  HttpClient client_;
};

// Waits; throws HttpCancelled as soon as `cancel` is. Null: it cannot be.
void pause(const HttpCancel* cancel, std::chrono::milliseconds time);

// For a query of a path.
std::string percent_encoded(std::string_view text);

}  // namespace cohort::engine::kubernetes
