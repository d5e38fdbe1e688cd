#include "cohort/cluster/dialects/json_error.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/cluster_json.h"
#include "cohort/cluster/dialects/expect_invalid_test.h"

namespace cohort::cluster {
namespace {

void expect_broken(const char* text, std::initializer_list<const char*> parts) {
  expect_invalid([&] { parse_cluster_json(text, "X"); }, parts);
}

TEST(JsonError, SaysWhereAndQuotesTheNeighbourhood) {
  expect_broken("{\"worker\": [\"a:1\"\n,  oops]}",
                {"X is not JSON at line 2, column 4 (offset 21)", "`oops]}`"});
}

TEST(JsonError, NamesTheUsualMistakes) {
  expect_broken("{'worker': ['a:1']}", {"line 1, column 2", "double quotes"});
  expect_broken("{\"worker\": [\"a:1\", ]}", {"column 20", "Remove the comma"});
  expect_broken("{\"worker\": [\"a:1\"", {"ends too early"});
  expect_broken("", {"line 1, column 1 (offset 0)", "ends too early"});
}

TEST(JsonError, CutsLongTextsAndNeverInsideACharacter) {
  std::string text =
      "{\"" + std::string(500, 'x') + "\": [\"\xc3\xa4\xc3\xa4\xc3\xa4\" \x01 \xc3\xa4]}";
  std::string what = broken_json("X", text, text.size() - 5, "parse error: reason").what();
  EXPECT_LT(what.size(), 300u);
  EXPECT_NE(what.find("..."), std::string::npos);
  EXPECT_NE(what.find("\xc3\xa4\xc3\xa4\" "), std::string::npos) << what;
  EXPECT_EQ(what.find('\x01'), std::string::npos);
}

}  // namespace
}  // namespace cohort::cluster
