#include "cohort/sdk/service_client.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/http_client.h"
#include "cohort/base/net/sse.h"
#include "cohort/sdk/small_service_test.h"

namespace cohort::sdk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ServiceClient, AsksForJobsAndReadsThem) {
  SmallService service([](const HttpRequest&) {
    return json_answer(R"({"jobs":[)" + job_json("running") + R"(],"next":"20261116"})");
  });
  ServiceClient client(service.address());
  const JobPage page = client.jobs({.states = {"running", "queued"}, .tag = "a b=ü", .limit = 7});
  EXPECT_THAT(service.asked(),
              ElementsAre("GET /v1/jobs?state=running,queued&tag=a%20b%3D%C3%BC&limit=7"));
  ASSERT_EQ(page.jobs.size(), 1U);
  EXPECT_EQ(page.next, "20261116");
  EXPECT_EQ(page.jobs[0].name, "mnist");
  EXPECT_EQ(page.jobs[0].tags.at("team"), "vision");
  EXPECT_EQ(page.jobs[0].progress, 0.25);
  EXPECT_FALSE(page.jobs[0].exit_code);
  EXPECT_FALSE(page.jobs[0].has_ended());
}

TEST(ServiceClient, RefusalsCarryTheServicesWordsAndAdvice) {
  int status = 404;
  SmallService service([&](const HttpRequest&) {
    return json_answer(R"({"error":{"message":"no job 'x\u001b'","advice":"See cohort jobs."}})",
                       status);
  });
  ServiceClient client(service.address());
  EXPECT_EQ(message_of<InvalidInput>([&] { client.job("x"); }),
            "no job 'x\\x1b'. See cohort jobs.");
  status = 401;
  EXPECT_THAT(message_of<AuthError>([&] { client.job("x"); }), HasSubstr("COHORT_TOKEN"));
  status = 500;
  EXPECT_THAT(message_of<Error>([&] { client.job("x"); }), HasSubstr("no job"));
}

TEST(ServiceClient, AnAnswerThatIsNoJobIsAProtocolError) {
  SmallService service([](const HttpRequest&) { return json_answer("[]"); });
  ServiceClient client(service.address());
  EXPECT_THAT(message_of<ProtocolError>([&] { client.job("x"); }), HasSubstr("not a job"));
}

TEST(ServiceClient, NoServiceIsAPeerError) {
  ServiceClient client(ServiceAddress{.socket = "/nonexistent/service.sock"});
  EXPECT_FALSE(message_of<PeerError>([&] { client.service(); }).empty());
}

// A body that ends before its time: the connection breaks.
class BrokenStream : public BodyStream {
 public:
  Then next(std::string&) override { throw Error("a test breaks the connection"); }
  std::optional<std::uint64_t> size() const override { return 10; }
};

TEST(ServiceClient, ASubmissionIsRepeatedWithTheSameRequestId) {
  int calls = 0;
  SmallService service([&](const HttpRequest&) {
    if (++calls == 1)
      return HttpResponse{.status = 201, .stream = std::make_unique<BrokenStream>()};
    return json_answer(job_json("queued"), 201);
  });
  ServiceClient client(service.address());
  jobspec::JobSpec spec;
  spec.program = {"/bin/true"};
  EXPECT_EQ(client.submit(spec).state, "queued");
  ASSERT_EQ(service.bodies().size(), 2U);
  const auto first = nlohmann::json::parse(service.bodies()[0]);
  EXPECT_EQ(first, nlohmann::json::parse(service.bodies()[1]));
  EXPECT_EQ(first.at("spec").at("program").at(0), "/bin/true");
  EXPECT_GE(first.at("request_id").get<std::string>().size(), 16U);
  EXPECT_EQ(service.header(0, "content-type"), "application/json");
}

TEST(ServiceClient, AChangeIsNotRepeated) {
  SmallService service(
      [&](const HttpRequest&) { return HttpResponse{.stream = std::make_unique<BrokenStream>()}; });
  ServiceClient client(service.address());
  EXPECT_THROW(client.stop("x"), PeerError);
  EXPECT_THAT(service.asked(), ElementsAre("POST /v1/jobs/x/stop"));
}

TEST(ServiceClient, WaitsWhenTheServiceIsBusy) {
  int calls = 0;
  SmallService service([&](const HttpRequest&) {
    HttpResponse busy = json_answer(R"({"error":{"message":"too many","advice":null}})", 429);
    busy.headers.emplace_back("Retry-After", "0");
    return ++calls == 1 ? std::move(busy) : json_answer(job_json("stopping"));
  });
  ServiceClient client(service.address());
  EXPECT_EQ(client.stop("x").state, "stopping");
  EXPECT_EQ(calls, 2);
}

TEST(ServiceClient, AFollowedLogGoesOnBehindTheLastEvent) {
  SmallService service([](const HttpRequest& request) {
    const std::string* last = find_header(request.headers, "last-event-id");
    std::string body;
    if (!last)
      body = to_sse("log", "c1", R"({"task":"worker:0","attempt":1,"offset":0,"text":"one\n"})");
    else
      body = to_sse("log", "c2", R"({"task":"worker:0","attempt":1,"offset":4,"text":"two\n"})") +
             to_sse("end", "c3", R"({"state":"failed","exit_code":3,"reason":"no data"})");
    return HttpResponse{.body = body, .type = "text/event-stream"};
  });
  ServiceClient client(service.address());
  std::string text, cursor;
  const JobEnd end =
      client.follow_logs("x", {.tasks = {"worker:0"}, .tail = 5}, [&](const LogText& piece) {
        text += piece.text;
        cursor = piece.cursor;
      });
  EXPECT_EQ(text, "one\ntwo\n");
  EXPECT_EQ(cursor, "c2");
  EXPECT_EQ(end.reason, "no data");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(service.asked().front(), "GET /v1/jobs/x/logs/stream?task=worker:0&tail=5");
  EXPECT_EQ(service.header(1, "last-event-id"), "c1");
}

TEST(ServiceClient, TheLastLinesOfALogAreThoseAskedFor) {
  SmallService service([](const HttpRequest& request) {
    const bool is_first = request.target.find("offset=") == std::string::npos;
    HttpResponse page{.body = is_first ? "1\n2\n3" : "", .type = "text/plain"};
    if (request.target.find("offset=5") != std::string::npos) page.body = "3\n4\n";
    page.headers = {{"Cohort-Next-Offset", is_first ? "5" : "9"}, {"Cohort-Log-End", "false"}};
    return page;
  });
  ServiceClient client(service.address());
  std::string text;
  client.read_logs("x", {.tasks = {"worker:0"}, .tail = 2}, 0,
                   [&](const LogText& piece) { text += piece.text; });
  EXPECT_EQ(text, "33\n4\n");
}

TEST(ServiceClient, CancelEndsACall) {
  HttpCancel cancel;
  cancel.cancel();
  SmallService service([](const HttpRequest&) { return json_answer(job_json("running")); });
  ServiceClient client(service.address(), &cancel);
  EXPECT_THROW(client.job("x"), HttpCancelled);
}

}  // namespace
}  // namespace cohort::sdk
