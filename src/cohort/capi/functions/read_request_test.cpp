#include "cohort/capi/functions/read_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/capi/functions/times.h"

namespace cohort::capi {
namespace {

using namespace std::chrono_literals;

TEST(ReadRequest, PartialsOfATensorWithElementsAreRequired) {
  float result[2] = {}, partial[2] = {};
  std::int64_t shape[1] = {2};
  const cohort_tensor tensor{
      .in = nullptr, .out = result, .dtype = COHORT_F32, .ndim = 1, .shape = shape};
  const void* partials[2] = {partial, nullptr};
  cohort_request asked{};
  asked.kind = COHORT_SHARD_SUM;
  asked.name = "x";
  asked.postscale = 1;
  asked.tensors = &tensor;
  asked.tensor_count = 1;
  asked.shards = 3;  // of one rank: a node of all
  asked.partials = partials;
  EXPECT_EQ(read_request(asked, 0, 1)->partials.size(), 1u);
  partials[0] = nullptr;
  EXPECT_THROW(read_request(asked, 0, 1), InvalidInput);
  shape[0] = 0;
  EXPECT_EQ(read_request(asked, 0, 1)->partials.size(), 1u);
  asked.shards = (1 << 20) + 1;
  EXPECT_THROW(read_request(asked, 0, 1), InvalidInput);
  EXPECT_THROW(shard_nodes(0, 1, std::numeric_limits<int>::max()), InvalidInput);
}

TEST(Times, AreCutToWhatDoesNotOverflow) {
  EXPECT_EQ(time_of_ms(1500), 1500ms);
  EXPECT_EQ(time_of_ms(INT64_MAX), kLongestTime);
  EXPECT_FALSE(Deadline::after(time_of_ms(INT64_MAX)).expired());
  EXPECT_EQ(time_of_us(7), 7us);
  EXPECT_EQ(time_of_us(INT64_MAX), kLongestTime);
  EXPECT_EQ(time_of_s(0.25), 250ms);
  EXPECT_EQ(time_of_s(1e-9), 1ms);
  EXPECT_EQ(time_of_s(INFINITY), 300'000'000s);
  EXPECT_EQ(time_of_s(NAN), 0ms);
  EXPECT_EQ(time_of_s(-1), 0ms);
}

}  // namespace
}  // namespace cohort::capi
