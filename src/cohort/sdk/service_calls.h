#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/net/http_client.h"
#include "cohort/base/net/sse.h"
#include "cohort/sdk/service_address.h"

namespace cohort::sdk {

// The target of a request, encoded: path segments, then a query of those values that are not empty.
std::string target(std::initializer_list<std::string_view> segments,
                   const std::vector<std::pair<std::string, std::string>>& query = {});

// Requests to one service, and what its refusals mean (service_client.h says which error is which).
//
// Threads: any number. Failure: as ServiceClient.
class ServiceCalls {
 public:
  ServiceCalls(ServiceAddress address, const HttpCancel* cancel);

  const ServiceAddress& address() const { return address_; }

  // The answer to a request that changes nothing, or may come twice; repeated once when the
  // connection broke.
  HttpReply repeatable(const HttpCall& call) const;
  // Sent once; again only where the service said that it has done nothing (429).
  HttpReply once(const HttpCall& call) const;

  std::string get(const std::string& target) const;
  std::string post(const std::string& target, std::string body = "{}") const;
  void remove(const std::string& target) const;
  // A function that gives the next bytes of a body, none at its end: as long as some come every half
  // minute. It may outlive this object.
  std::function<std::string()> body_of(const std::string& target) const;

  // Events of a stream, until `take` says false. A stream that breaks off is taken up again behind
  // the last event, for as long as no more than `patience` pass without the service. This user's own
  // service is started again when it does not come back within seconds.
  void follow(const std::string& target, std::chrono::seconds patience,
              const std::function<bool(const SseEvent&)>& take) const;

 private:
  // How far a stream has come.
  struct Followed {
    std::string last_id;
    std::optional<Deadline::Clock::time_point> last_sign;  // nothing before it was first open
    bool has_told = false;                                 // that the service is away
  };
  HttpReply checked(HttpReply reply) const;
  // False: `take` said so; true: the stream ended.
  bool follow_once(const std::string& target, Followed& followed,
                   const std::function<bool(const SseEvent&)>& take) const;
  void pause(std::chrono::milliseconds time) const;

  ServiceAddress address_;
  const HttpCancel* cancel_;
  HttpClient client_;
};

}  // namespace cohort::sdk
