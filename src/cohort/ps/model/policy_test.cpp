#include "cohort/ps/model/policy.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::ps {
namespace {

TEST(Policy, WordsAreReadAsTheyAreWritten) {
  for (auto mode : {Policy::Mode::sync, Policy::Mode::async, Policy::Mode::bounded})
    EXPECT_EQ(parse_mode(to_string(mode)), mode);
  for (auto rule : {Policy::NotFinite::refuse, Policy::NotFinite::drop, Policy::NotFinite::apply})
    EXPECT_EQ(parse_not_finite(to_string(rule)), rule);
  for (auto level : {Durability::none, Durability::process, Durability::replica, Durability::disk})
    EXPECT_EQ(parse_durability(to_string(level)), level);
}

TEST(Policy, AnUnknownWordIsNamedWithTheKnownOnes) {
  EXPECT_EQ(message_of<InvalidInput>([] { parse_durability("raid"); }),
            "'raid' is no level of durability. Use one of none, process, replica, disk.");
}

}  // namespace
}  // namespace cohort::ps
