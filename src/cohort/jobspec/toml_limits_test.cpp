#include "cohort/jobspec/toml_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::jobspec {
namespace {

using ::testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string refusal_of(const std::string& text) {
  return message_of<InvalidInput>([&] { require_shallow_toml(text, "job.toml"); });
}

TEST(TomlLimits, DeepKeysAndBracketsAreRefusedByLine) {
  EXPECT_THAT(refusal_of("workers = 2\n" + repeated("a.", 50'000) + "b = 1\n"),
              HasSubstr("job.toml line 2: keys nest more than 32 deep"));
  EXPECT_THAT(refusal_of("[" + repeated("a.", 50'000) + "b]\n"), HasSubstr("line 1: keys nest"));
  EXPECT_THAT(refusal_of("a = " + repeated("{a.b.c = ", 300)),
              HasSubstr("lists and tables nest more than 16 deep"));
  EXPECT_THAT(refusal_of(repeated("\"a\".", 50'000) + "b = 1"), HasSubstr("keys nest"));
}

TEST(TomlLimits, BracketsOfAnotherKindEndNothing) {
  EXPECT_THAT(refusal_of("a = 1\nb = [1, }\n"),
              HasSubstr("job.toml line 2: '}' closes what '[' opened"));
  EXPECT_THAT(refusal_of("a = {b = 1]\n"), HasSubstr("']' closes what '{' opened"));
  require_shallow_toml("[[a]]\nb = {c = [1, {d = ']'}], e = \"}\"} # }]\n", "job.toml");
}

TEST(TomlLimits, StringsCommentsAndManyNumbersAreNoDepth) {
  require_shallow_toml(repeated("a.b = [0.1, 0.2, 0.3]\n", 1000), "job.toml");
  require_shallow_toml("text = '" + repeated(".[", 1000) + "'\n", "job.toml");
  require_shallow_toml("text = \"\\\"" + repeated(".[", 1000) + "\"\n", "job.toml");
  require_shallow_toml("text = \"\"\"\n" + repeated(".[\"\n", 1000) + "\"\"\"\nx = 1\n",
                       "job.toml");
  require_shallow_toml("# " + repeated(".[", 1000) + "\nx = 1\n", "job.toml");
}

}  // namespace
}  // namespace cohort::jobspec
