#include "cohort/ps/wire/wire_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cohort::ps {
namespace {

std::vector<float> there_and_back(const std::vector<float>& values, WireType wire) {
  std::vector<std::byte> travelling(wire_bytes(ElementType::f32, wire, values.size()));
  std::vector<float> back(values.size());
  to_wire(reinterpret_cast<const std::byte*>(values.data()), ElementType::f32, wire, values.size(),
          travelling.data());
  from_wire(travelling.data(), ElementType::f32, wire, values.size(),
            reinterpret_cast<std::byte*>(back.data()));
  return back;
}

TEST(WireType, ExactKeepsEveryBit) {
  const std::vector<float> values{0.1f, -3.3e-30f, 7e30f, 0};
  EXPECT_EQ(there_and_back(values, WireType::exact), values);
}

TEST(WireType, HalvesAreHalfAsLargeAndNear) {
  EXPECT_EQ(wire_bytes(ElementType::f32, WireType::f16, 10), 20u);
  EXPECT_EQ(wire_bytes(ElementType::f64, WireType::f16, 10), 80u) << "f64 is never rounded";
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto f16 = there_and_back(values, WireType::f16);
  const auto bf16 = there_and_back(values, WireType::bf16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(f16[i], values[i], std::abs(values[i]) / 2048 + 1e-7);
    EXPECT_NEAR(bf16[i], values[i], std::abs(values[i]) / 256 + 1e-7);
  }
}

TEST(WireType, WhatIsNotFiniteStaysSo) {
  const std::vector<float> values{std::numeric_limits<float>::infinity(), std::nanf("")};
  for (WireType wire : {WireType::f16, WireType::bf16}) {
    const auto back = there_and_back(values, wire);
    EXPECT_TRUE(std::isinf(back[0]));
    EXPECT_TRUE(std::isnan(back[1]));
  }
}

}  // namespace
}  // namespace cohort::ps
