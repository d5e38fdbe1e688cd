#include "cohort/capi/execution/adasum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cohort/collective/reduction/half.h"

namespace cohort::capi {
namespace {

using collective::DataType;
using testing::ElementsAre;

template <typename T>
std::vector<T> combined(std::vector<T> all, std::size_t ranks, DataType dtype, double prescale = 1,
                        double postscale = 1) {
  std::vector<T> out(all.size() / ranks);
  combine_adasum(reinterpret_cast<std::byte*>(all.data()), ranks, out.size(), dtype, prescale,
                 postscale, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(Adasum, OrthogonalVectorsAddUpAndEqualOnesCountOnce) {
  EXPECT_THAT(combined<float>({1, 0, 0, 2}, 2, DataType::f32), ElementsAre(1.0f, 2.0f));
  EXPECT_THAT(combined<double>({3, 4, 3, 4}, 2, DataType::f64), ElementsAre(3.0, 4.0));
  EXPECT_THAT(combined<double>({3, 4}, 1, DataType::f64), ElementsAre(3.0, 4.0));
}

TEST(Adasum, IsTheFormulaForAPair) {
  // a.b = 2, |a|^2 = 1, |b|^2 = 5: (1 - 1) a + (1 - 0.2) b.
  EXPECT_THAT(combined<double>({1, 0, 2, 1}, 2, DataType::f64), ElementsAre(1.6, 0.8));
}

TEST(Adasum, VectorsOfZerosLeaveTheOthersAsTheyAre) {
  EXPECT_THAT(combined<float>({0, 0, 5, 6, 0, 0}, 3, DataType::f32), ElementsAre(5.0f, 6.0f));
}

TEST(Adasum, ScalesBeforeAndAfter) {
  EXPECT_THAT(combined<float>({1, 0, 0, 2}, 2, DataType::f32, 2, 10), ElementsAre(20.0f, 40.0f));
}

TEST(Adasum, HalvesAreCombinedInSinglePrecision) {
  using namespace collective;
  EXPECT_THAT(combined<std::uint16_t>({to_f16(1), 0, 0, to_f16(2)}, 2, DataType::f16),
              ElementsAre(to_f16(1), to_f16(2)));
  EXPECT_THAT(combined<std::uint16_t>({to_bf16(1), 0, 0, to_bf16(2)}, 2, DataType::bf16),
              ElementsAre(to_bf16(1), to_bf16(2)));
}

}  // namespace
}  // namespace cohort::capi
