#include "cohort/tools/ledger_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cohort::tools {
namespace {

using membership::Ledger;
using testing::HasSubstr;
using testing::Not;

// Two epochs of 8 samples, 2 shards, 4 samples a step: steps 0 to 3.
Ledger ledger_of(std::vector<std::pair<std::int64_t, std::uint64_t>> steps_and_views) {
  Ledger ledger{.plan = {.samples = 8, .batch = 4, .shards = 2, .seed = 7, .steps_per_epoch = 2}};
  for (auto [step, view] : steps_and_views)
    ledger.entries.push_back({.record = {.epoch = step / 2,
                                         .step = step,
                                         .first = step % 2 * 4,
                                         .view = view,
                                         .counts = {2, 2},
                                         .owners = {0, 1}}});
  return ledger;
}

TEST(LedgerText, SaysWhatIsProven) {
  Ledger ledger = ledger_of({{0, 1}, {1, 1}, {2, 1}});
  std::string text = verify_text(ledger, verify(ledger));
  EXPECT_THAT(text, HasSubstr("8 samples an epoch, 4 a step in 2 shards, seed 7, shuffled"));
  EXPECT_THAT(text, HasSubstr("0          2              8  yes"));
  EXPECT_THAT(text, HasSubstr("1          1              4  so far; not ended"));
  EXPECT_THAT(text, HasSubstr("proven: every sample of 1 ended epoch entered exactly one"));
  EXPECT_THAT(text, Not(HasSubstr("done again")));
}

TEST(LedgerText, NamesProblemsAndProvesNothing) {
  Ledger ledger = ledger_of({{0, 1}, {2, 1}, {3, 1}});
  auto report = verify(ledger);
  ASSERT_FALSE(report.problems.empty());
  std::string text = verify_text(ledger, report);
  EXPECT_THAT(text, HasSubstr("problem: " + report.problems.front()));
  EXPECT_THAT(text, testing::EndsWith("not proven\n"));
  EXPECT_EQ(nlohmann::json::parse(verify_json(ledger, report))["proven"], false);
}

TEST(LedgerText, SaysWhyStepsWereDoneAgain) {
  Ledger ledger = ledger_of({{0, 1}, {1, 1}, {1, 2}, {2, 2}, {3, 2}, {2, 3}, {3, 3}});
  ledger.rewinds = {2};
  ledger.entries[5].generation = ledger.entries[6].generation = 1;
  auto redone = redone_steps(ledger);
  ASSERT_EQ(redone.size(), 2u);
  EXPECT_EQ(redone[0].first, 1);
  EXPECT_EQ(redone[0].why, "in view 1, then in view 2");
  EXPECT_EQ(redone[1].first, 2);
  EXPECT_EQ(redone[1].last, 3);
  EXPECT_EQ(redone[1].why, "the training went on from step 2");
  EXPECT_THAT(verify_text(ledger, verify(ledger)),
              HasSubstr("done again: steps 2 to 3: the training went on from step 2"));
}

TEST(LedgerText, ShowsEachShard) {
  Ledger ledger = ledger_of({{1, 5}, {2, 6}});
  EXPECT_EQ(show_text(ledger, 0, ShowFormat::csv),
            "epoch,step,shard,first,end,view,owner,generation\n"
            "0,1,0,4,6,5,0,0\n"
            "0,1,1,6,8,5,1,0\n");
  EXPECT_THAT(show_text(ledger, std::nullopt, ShowFormat::table), HasSubstr("[2, 4)"));
}

}  // namespace
}  // namespace cohort::tools
