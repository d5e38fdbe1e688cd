#include "cohort/collective/native/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::collective {
namespace {

std::string refusal(const std::string& text) {
  try {
    TuningTable::from_json(text, "my.json");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& body) {
  return R"({"format": "cohort-tuning-1", )" + body + "}";
}

TEST(Tuning, TheLastRuleThatAppliesCounts) {
  TuningTable table;
  table.exchange_all = {{2, 1000}, {4, 100}, {8, 0}};
  table.recursive_doubling = {{4, 5000}};
  EXPECT_EQ(table.all_reduce(2, 1000), HostAllReduce::exchange_all);
  EXPECT_EQ(table.all_reduce(2, 1001), HostAllReduce::reduce_scatter);
  EXPECT_EQ(table.all_reduce(3, 1000), HostAllReduce::exchange_all);
  EXPECT_EQ(table.all_reduce(4, 101), HostAllReduce::recursive_doubling);
  EXPECT_EQ(table.all_reduce(9, 0), HostAllReduce::recursive_doubling);
  EXPECT_EQ(table.all_reduce(9, 5001), HostAllReduce::reduce_scatter);
}

TEST(Tuning, WrittenTablesReadTheSame) {
  TuningTable table;
  table.inlined = {{2, 64}, {3, 4096}};
  table.exchange_all = {};
  table.flat_broadcast = {{3, 1 << 30}};
  for (const bool pretty : {false, true}) {
    const std::string text = table.to_json(pretty);
    EXPECT_EQ(TuningTable::from_json(text, "x"), table) << text;
  }
  EXPECT_EQ(table.to_json(false).find('\n'), std::string::npos);
}

TEST(Tuning, KeysLeftOutKeepTheirDefaults) {
  const auto table = TuningTable::from_json(with(R"("broadcast_flat": [])"), "x");
  EXPECT_EQ(table.inlined, TuningTable{}.inlined);
  EXPECT_EQ(table.broadcast(2, 1), HostBroadcast::binomial);
}

TEST(Tuning, ErrorsNameFileKeyValueAndFix) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("{"), AllOf(HasSubstr("my.json"), HasSubstr("cohort tune")));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("format is missing"));
  EXPECT_THAT(refusal(R"({"format": 7})"), HasSubstr("format is 7"));
  EXPECT_THAT(refusal(with(R"("speed": 1)")),
              AllOf(HasSubstr("my.json"), HasSubstr("'speed'"), HasSubstr("broadcast_flat")));
  EXPECT_THAT(refusal(with(R"("broadcast_flat": 3)")),
              AllOf(HasSubstr("broadcast_flat is 3"), HasSubstr("from_hosts")));
  EXPECT_THAT(
      refusal(with(R"("all_reduce_inlined": [{"from_ranks": 2, "up_to_bytes": 4097}])")),
      AllOf(HasSubstr("all_reduce_inlined[0].up_to_bytes is 4097"), HasSubstr("0 to 4096")));
  EXPECT_THAT(refusal(with(R"("broadcast_flat": [{"from_hosts": -2, "up_to_bytes": 1}])")),
              HasSubstr("broadcast_flat[0].from_hosts is -2"));
  EXPECT_THAT(refusal(with(R"("broadcast_flat": [{"from_hosts": 2}])")),
              HasSubstr("has no up_to_bytes"));
  EXPECT_THAT(refusal(with(R"("broadcast_flat": [{"from_ranks": 2, "up_to_bytes": 1}])")),
              HasSubstr("unknown key 'from_ranks'"));
  EXPECT_THAT(refusal(with(R"("broadcast_flat": [{"from_hosts": 3, "up_to_bytes": 1},
                                                 {"from_hosts": 3, "up_to_bytes": 2}])")),
              HasSubstr("broadcast_flat[1].from_hosts is 3, after 3"));
}

}  // namespace
}  // namespace cohort::collective
