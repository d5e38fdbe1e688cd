#include "cohort/engine/kubernetes/kube_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cohort/base/error.h"
#include "cohort/base/net/http_server.h"
#include "cohort/engine/kubernetes/kubernetes_engine.h"

namespace cohort::engine::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An API server without TLS, which is enough for a client without a token.
class SmallApi {
 public:
  explicit SmallApi(std::function<HttpResponse(const HttpRequest&)> answer)
      : server_({{.bind = Endpoint::tcp("127.0.0.1", 0)}}, "the test", HttpLimits{},
                [answer](const HttpRequest& request) { return answer(request); }) {}

  ClusterAccess access() const {
    return {.server = fmt::format("http://127.0.0.1:{}", server_.port()), .prefix = "/c1"};
  }

 private:
  HttpServer server_;
};

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

TEST(KubeCalls, AreTriedAgainUntilTheServerHasAnAnswer) {
  std::atomic<int> calls = 0;
  const SmallApi api([&](const HttpRequest& request) -> HttpResponse {
    EXPECT_EQ(request.target, "/c1/api/v1/x");
    const int statuses[] = {503, 429, 401, 409};
    return {.status = statuses[calls++], .body = R"({"message": "so"})"};
  });
  std::vector<std::string> troubles;
  const KubeClient client(api.access(), nullptr,
                          [&](const std::string& what) { troubles.push_back(what); });
  const KubeAnswer answer = client.get("/api/v1/x", soon());
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.message(), "so (409)");
  EXPECT_THAT(troubles,
              ElementsAre(HasSubstr("so (503)"), HasSubstr("so (429)"), HasSubstr("so (401)")));
}

TEST(KubeCalls, EndAtTheirDeadlineWithWhatTheyMetLast) {
  const SmallApi api([](const HttpRequest&) { return HttpResponse{.status = 500}; });
  const KubeClient client(api.access(), nullptr);
  EXPECT_THROW(client.get("/api", Deadline::after(std::chrono::milliseconds(200))), PeerError);
}

TEST(KubeCalls, ATokenIsNotSentInTheClear) {
  EXPECT_THROW(KubeClient({.server = "http://localhost", .token = [] { return ""; }}, nullptr),
               InvalidInput);
}

TEST(MissingForKubernetes, AreTheRightsThatTheServerDenies) {
  std::atomic<bool> denies = true;
  const SmallApi api([&](const HttpRequest& request) -> HttpResponse {
    const bool is_denied = denies && request.body.find("\"patch\"") != std::string::npos;
    return {.status = 201, .body = fmt::format(R"({{"status": {{"allowed": {}}}}})", !is_denied)};
  });
  const KubernetesSetup setup{.access = [&] { return api.access(); }};
  EXPECT_THAT(missing_for_kubernetes(setup),
              ElementsAre("the right to patch jobs in the namespace default"));
  denies = false;
  EXPECT_THAT(missing_for_kubernetes(setup), IsEmpty());
  EXPECT_THAT(missing_for_kubernetes({}), ElementsAre(HasSubstr("--kubeconfig")));
}

}  // namespace
}  // namespace cohort::engine::kubernetes
