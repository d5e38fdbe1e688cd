#include "cohort/membership/protocol/agreement.h"

#include <gtest/gtest.h>

namespace cohort::membership {
namespace {

TEST(AgreementTest, EachDifferingKeyIsNamedWithBothValues) {
  EXPECT_EQ(describe_difference(R"({"batch": 64, "seed": 1})", R"({"batch": 32, "seed": 1})"),
            "'batch' is 64 here, but 32 elsewhere");
  EXPECT_EQ(describe_difference(R"({"data": {"name": "mnist", "rows": 7}, "only": true})",
                                R"({"data": {"name": "cifar", "rows": 7}, "theirs": [1]})"),
            R"('data.name' is "mnist" here, but "cifar" elsewhere; 'only' is true here, but not )"
            R"(given elsewhere; 'theirs' is not given here, but [1] elsewhere)");
}

TEST(AgreementTest, TheSameIsNoDifference) {
  EXPECT_EQ(describe_difference(R"({"a": 1, "b": 2})", R"({"b": 2, "a": 1})"), "");
  EXPECT_EQ(describe_difference("x", "x"), "");
}

TEST(AgreementTest, WhatIsNoJsonIsShownAsItIs) {
  EXPECT_EQ(describe_difference("{\"a\": 1}", "nonsense"),
            "it is {\"a\": 1} here, but nonsense elsewhere");
}

}  // namespace
}  // namespace cohort::membership
