#include "cohort/ps/table/row_gradients.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

RowGradients decode(const std::string& bytes, int dimension) {
  return RowGradients::decode(std::as_bytes(std::span(bytes)), dimension);
}

TEST(RowGradients, ComeBackFromTheirBytes) {
  for (std::size_t rows : {0, 1, 3}) {
    RowGradients out;
    for (std::size_t i = 0; i < rows; ++i) {
      out.keys.push_back(~i);
      out.values.insert(out.values.end(), {float(i), -0.5f});
    }
    const RowGradients in = decode(out.encode(), 2);
    EXPECT_EQ(in.keys, out.keys);
    EXPECT_EQ(in.values, out.values);
  }
}

TEST(RowGradients, BytesOfAnotherSizeAreRefused) {
  const std::string good = RowGradients{{1, 2}, {1, 2, 3, 4}}.encode();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(decode(good.substr(0, size), 2), ProtocolError) << size;
  EXPECT_THROW(decode(good + "x", 2), ProtocolError);
  EXPECT_THROW(decode(good, 3), ProtocolError);
  std::string many = good;
  many[7] = '\x7f';  // a count that would overflow a multiplication
  EXPECT_THROW(decode(many, 2), ProtocolError);
}

TEST(RowGradients, MergeSumsEachRowInTheOrderGiven) {
  const float tiny = 1e-8f;
  const RowGradients first = {{7, 3}, {1, 10}}, second = {{3, 9}, {20, 5}}, third = {{7}, {tiny}},
                     fourth = {{7}, {-1}};
  const RowGradients* all[] = {&first, &second, &third, &fourth};
  const RowGradients merged = merge(all, 1, 0.5);
  EXPECT_EQ(merged.keys, (std::vector<std::uint64_t>{3, 7, 9}));
  EXPECT_EQ(merged.values, (std::vector<float>{15, ((1 + tiny) + -1.0f) / 2, 2.5f}));
}

TEST(RowGradients, MergeOfOneSumsItsDuplicates) {
  const RowGradients only = {{5, 2, 5}, {1, 2, 3, 4, 5, 6}};
  const RowGradients* all[] = {&only};
  const RowGradients merged = merge(all, 2, 1);
  EXPECT_EQ(merged.keys, (std::vector<std::uint64_t>{2, 5}));
  EXPECT_EQ(merged.values, (std::vector<float>{3, 4, 6, 8}));
}

}  // namespace
}  // namespace cohort::ps
