#include "cohort/service/api/router.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cohort/service/api/api.h"
#include "cohort/service/api/openapi_document.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/json_body.h"
#include "cohort/service/http/time_text.h"

namespace cohort::service {
namespace {

using testing::HasSubstr;

template <typename Call>
int status_of(Call call) {
  try {
    call();
    return 200;
  } catch (const ApiError& error) {
    return error.status();
  }
}

std::string matched(std::string_view method, std::string_view target) {
  const auto match = match_route(api_routes(), method, target);
  std::string text(match.route->path);
  for (const auto& [name, value] : match.parts) text += " " + name + "=" + value;
  return text;
}

TEST(Router, TakesTheSegmentsOfAPathApart) {
  EXPECT_EQ(matched("GET", "/v1/jobs?limit=3"), "/v1/jobs");
  EXPECT_EQ(matched("GET", "/v1/jobs/2026-1"), "/v1/jobs/{job} job=2026-1");
  EXPECT_EQ(matched("POST", "/v1/jobs/check"), "/v1/jobs/check");
  EXPECT_EQ(matched("GET", "/v1/jobs/check"), "/v1/jobs/{job} job=check");
  EXPECT_EQ(matched("GET", "/v1/jobs/a%20b/logs/stream"), "/v1/jobs/{job}/logs/stream job=a b");
  EXPECT_EQ(matched("GET", "/v1/jobs/a/files/output/x/y%2Bz"),
            "/v1/jobs/{job}/files/{path} job=a path=output/x/y+z");
}

TEST(Router, RefusesWhatNoRouteTakes) {
  const auto status = [](std::string_view method, std::string_view target) {
    return status_of([&] { match_route(api_routes(), method, target); });
  };
  EXPECT_EQ(status("GET", "/"), 404);
  EXPECT_EQ(status("GET", "/v1/jobs/"), 404);
  EXPECT_EQ(status("GET", "/v1/jobs//logs"), 404);
  EXPECT_EQ(status("GET", "/v2/jobs"), 404);
  EXPECT_EQ(status("DELETE", "/v1/jobs"), 405);
  EXPECT_EQ(status("GET", "/v1/jobs/%zz"), 400);
  EXPECT_EQ(status("GET", "/v1/jobs/%2"), 400);
  EXPECT_EQ(status("GET", "/v1/jobs/a%00b"), 400);
}

TEST(Router, HasTheOperationsOfTheDocumentAndNoOthers) {
  const auto document = nlohmann::json::parse(openapi_document());
  std::set<std::string> documented, routed;
  for (const auto& [path, operations] : document["paths"].items())
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      documented.insert(upper + " " + path + " " + operation["x-role"].get<std::string>());
    }
  for (const Route& route : api_routes())
    routed.insert(std::string(route.method) + " " + std::string(route.path) + " " +
                  std::string(route.is_open ? "none" : name_of(route.least)));
  EXPECT_EQ(routed, documented);
}

TEST(Query, IsDecodedAndChecked) {
  const Query query("state=running%2Cqueued&name=a+b&limit=7&empty=");
  EXPECT_EQ(query.get("state"), "running,queued");
  EXPECT_EQ(query.get("name"), "a b");
  EXPECT_EQ(query.get("empty"), "");
  EXPECT_EQ(query.number("limit", 1, 1, 10), 7);
  EXPECT_EQ(query.number("offset", 3, 0, 10), 3);
  EXPECT_EQ(status_of([&] { query.number("limit", 1, 1, 6); }), 400);
  EXPECT_EQ(status_of([&] { query.number("name", 1, 1, 6); }), 400);
  EXPECT_EQ(status_of([] { Query("a=1&a=2").get("a"); }), 400);
  EXPECT_THAT(Query("a=1&b=3&a=2").all("a"), testing::ElementsAre("1", "2"));
  EXPECT_TRUE(Query("a=1&b=0").flag("a"));
  EXPECT_FALSE(Query("a=1&b=0").flag("b") || Query("a=1").flag("c"));
  EXPECT_EQ(status_of([] { Query("a=yes").flag("a"); }), 400);
  EXPECT_EQ(status_of([] { Query("a=%x1"); }), 400);
  std::string many;
  for (int i = 0; i < 13'000; ++i) many += fmt::format("{:x}&", i);
  EXPECT_EQ(status_of([&] { Query(std::string_view(many).substr(0, 70)); }), 200);
  EXPECT_EQ(status_of([&] { Query{many}; }), 400);
  try {
    query.require_only({"states", "name", "limit", "empty"});
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'state'. Did you mean states?"));
  }
}

TEST(JsonBody, IsAnObjectOfKnownFieldsAndNotTooDeep) {
  EXPECT_EQ(text_field(parse_body(R"({"a": "x"})", {"a"}), "a"), "x");
  EXPECT_EQ(status_of([] { parse_body("[1]", {"a"}); }), 400);
  EXPECT_EQ(status_of([] { parse_body("{", {"a"}); }), 400);
  EXPECT_EQ(status_of([] { parse_body(R"({"b": 1})", {"a"}); }), 400);
  EXPECT_EQ(status_of([] { number_field(parse_body(R"({"a": 1.5})", {"a"}), "a", 0, 9); }), 400);
  EXPECT_EQ(status_of([] { number_field(parse_body(R"({"a": 10})", {"a"}), "a", 0, 9); }), 400);
  EXPECT_EQ(status_of([] { number_field(parse_body("{}", {"a"}), "a", 0, 9); }), 400);
  const auto nested = [](int levels) {
    return R"({"a": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_EQ(status_of([&] { parse_body(nested(kMostJsonLevels - 1), {"a"}); }), 200);
  EXPECT_EQ(status_of([&] { parse_body(nested(kMostJsonLevels + 1), {"a"}); }), 400);
  EXPECT_EQ(status_of([&] { parse_body(nested(400'000), {"a"}); }), 400);
  EXPECT_EQ(status_of([] { parse_body(R"({"a": 1, "a": 2})", {"a"}); }), 400);
  EXPECT_EQ(status_of([] { parse_body(R"({"a": {"b": 1, "b": 1}})", {"a"}); }), 400);
  EXPECT_EQ(status_of([] { parse_body(R"({"a": {"b": {"b": 1}}})", {"a"}); }), 200);
}

// Each field of an object is compared with all others: too many would take minutes.
TEST(JsonBody, HasSoManyFieldsAndValuesAtMost) {
  const auto fields = [](std::size_t count) {
    std::string body = R"({"a": {"k": 1)";
    for (std::size_t i = 1; i < count; ++i) body += fmt::format(R"(,"{}":1)", i);
    return body + "}}";
  };
  EXPECT_EQ(status_of([&] { parse_body(fields(kMostJsonFields), {"a"}); }), 200);
  EXPECT_EQ(status_of([&] { parse_body(fields(kMostJsonFields + 1), {"a"}); }), 400);
  EXPECT_EQ(status_of([&] { parse_body(fields(100'000), {"a"}); }), 400);
  std::string list = R"({"a": [1)";
  for (std::size_t i = 0; i < kMostJsonValues; ++i) list += ",1";
  EXPECT_EQ(status_of([&] { parse_body(list + "]}", {"a"}); }), 400);
}

TEST(TimeText, IsRfc3339BothWays) {
  EXPECT_EQ(time_text(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time_text(1769862896789), "2026-01-31T12:34:56.789Z");
  EXPECT_EQ(parse_since("2026-01-31T12:34:56.789Z", 0), 1769862896789);
  EXPECT_EQ(parse_since("2026-01-31T14:34:56+02:00", 0), 1769862896000);
  EXPECT_EQ(parse_since("2026-01-31t12:34:56z", 0), 1769862896000);
  EXPECT_EQ(parse_since("600", 1'000'000), 400'000);
  EXPECT_EQ(parse_since("1.5", 10'000), 8'500);
  for (const char* wrong :
       {"", "x", "-5", "1e3", "nan", "2026-01-31", "2026-13-31T12:34:56Z", "2026-01-31T12:34:56",
        "2026-01-31T12:34:56.Z", "2026-01-31T12:34:56+2", "99999999999999"})
    EXPECT_FALSE(parse_since(wrong, 0)) << wrong;
}

}  // namespace
}  // namespace cohort::service
