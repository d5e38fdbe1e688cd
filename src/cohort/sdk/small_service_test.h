#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/net/http_server.h"
#include "cohort/sdk/service_address.h"

namespace cohort::sdk {

// For tests: answers on a Unix socket as a function says, and keeps what was asked.
class SmallService {
 public:
  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  explicit SmallService(Answer answer)
      : answer_(std::move(answer)),
        server_({{.bind = Endpoint::unix_path((folder_ / "service.sock").string())}},
                "a test's service", HttpLimits{}, [this](HttpRequest request) {
                  const std::lock_guard lock(mutex_);
                  asked_.push_back(request.method + " " + request.target);
                  headers_.push_back(request.headers);
                  bodies_.push_back(request.body);
                  return answer_(request);
                }) {}

  ServiceAddress address() const { return {.socket = (folder_ / "service.sock").string()}; }
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::vector<std::string> bodies() const {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  std::string header(std::size_t request, const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const std::string* found = find_header(headers_.at(request), name);
    return found ? *found : "";
  }

 private:
  ScratchFolder folder_;
  Answer answer_;
  mutable std::mutex mutex_;
  std::vector<std::string> asked_, bodies_;
  std::vector<HttpHeaders> headers_;
  HttpServer server_;
};

inline HttpResponse json_answer(std::string body, int status = 200) {
  return {.status = status, .body = std::move(body), .type = "application/json"};
}

inline std::string job_json(const std::string& state) {
  return R"({"id":"20261116-190102-7f3a9c","name":"mnist","user":"ann","queue":"default",)"
         R"("engine":"local","priority":0,"state":")" +
         state +
         R"(","reason":"","pinned":false,"attempt":1,"instances":2,"exit_code":null,)"
         R"("progress":0.25,"eta":null,"tags":{"team":"vision"},)"
         R"("submitted":"2026-11-16T19:01:02.000Z","started":null,"ended":null})";
}

}  // namespace cohort::sdk
