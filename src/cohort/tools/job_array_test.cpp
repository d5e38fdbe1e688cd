#include "cohort/tools/job_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobArrays, AreWrittenAsSlurmWritesThem) {
  EXPECT_THAT(parse_array("0-3").indices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parse_array("7").indices, ElementsAre(7));
  EXPECT_THAT(parse_array("1,5-6,3").indices, ElementsAre(1, 5, 6, 3));
  EXPECT_THAT(parse_array("0-9:4").indices, ElementsAre(0, 4, 8));
  EXPECT_EQ(parse_array("0-3").most_at_once, 0);
  EXPECT_EQ(parse_array("0-9%4").most_at_once, 4);
  EXPECT_EQ(parse_array("1-10000").indices.size(), 10'000u);
}

TEST(JobArrays, WhatIsNoArrayIsRefusedWithItsReason) {
  const auto said = [](const char* text) {
    return message_of<InvalidInput>([&] { parse_array(text); });
  };
  EXPECT_THAT(said(""), HasSubstr("names no index"));
  EXPECT_THAT(said("a-3"), HasSubstr("the index 'a'"));
  EXPECT_THAT(said("-3"), HasSubstr("the index ''"));
  EXPECT_THAT(said("0-1000000001"), HasSubstr("from 0 to 1000000000"));
  EXPECT_THAT(said("3-1"), HasSubstr("1 is below 3"));
  EXPECT_THAT(said("0-9:0"), HasSubstr("the step '0'"));
  EXPECT_THAT(said("4:2"), HasSubstr("behind a range"));
  EXPECT_THAT(said("0-3%0"), HasSubstr("behind %"));
  EXPECT_THAT(said("0-3,2"), HasSubstr("twice"));
  EXPECT_THAT(said("0-10000"), HasSubstr("more than 10000 elements"));
}

TEST(JobArrays, AnElementKnowsItsIndexAndHasPlacesOfItsOwn) {
  jobspec::JobSpec spec;
  spec.name = "sweep";
  spec.output = "/data/results";
  spec.env = {{"A", "b"}};
  const jobspec::JobSpec one = array_element(spec, parse_array("3,5,9"), 1, "17");
  EXPECT_EQ(one.name, "sweep-5");
  EXPECT_EQ(one.output, "/data/results/5");
  EXPECT_EQ(one.env.at("A"), "b");
  EXPECT_EQ(one.env.at("COHORT_ARRAY_INDEX"), "5");
  EXPECT_EQ(one.env.at("SLURM_ARRAY_TASK_ID"), "5");
  EXPECT_EQ(one.env.at("SLURM_ARRAY_JOB_ID"), "17");
  EXPECT_EQ(one.env.at("SLURM_ARRAY_TASK_COUNT"), "3");
  EXPECT_EQ(one.env.at("SLURM_ARRAY_TASK_MIN"), "3");
  EXPECT_EQ(one.env.at("SLURM_ARRAY_TASK_MAX"), "9");
  EXPECT_EQ(one.tags.at("array"), "17");
  EXPECT_EQ(one.tags.at("array_index"), "5");
  EXPECT_EQ(array_element({}, parse_array("3"), 0, "17").name, "");
  EXPECT_NE(new_array_id(), "");
}

}  // namespace
}  // namespace cohort::tools
