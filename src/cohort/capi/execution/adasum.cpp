#include "cohort/capi/execution/adasum.h"

#include <vector>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/half.h"

namespace cohort::capi {

namespace {

using collective::DataType;

template <typename T>
void combine_pair(T* a, const T* b, std::size_t elements) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    ab += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  // A vector of zeros has no direction: the other one counts in full.
  const double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa);
  const double of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  for (std::size_t i = 0; i < elements; ++i)
    a[i] = static_cast<T>(of_a * static_cast<double>(a[i]) + of_b * static_cast<double>(b[i]));
}

// The result is the first vector.
template <typename T>
void combine(T* all, std::size_t ranks, std::size_t elements, double prescale, double postscale) {
  if (prescale != 1)
    for (std::size_t i = 0; i < ranks * elements; ++i)
      all[i] = static_cast<T>(static_cast<double>(all[i]) * prescale);
  for (std::size_t stride = 1; stride < ranks; stride *= 2)
    for (std::size_t rank = 0; rank + stride < ranks; rank += 2 * stride)
      combine_pair(all + rank * elements, all + (rank + stride) * elements, elements);
  if (postscale != 1)
    for (std::size_t i = 0; i < elements; ++i)
      all[i] = static_cast<T>(static_cast<double>(all[i]) * postscale);
}

template <typename Load, typename Store>
void combine_half(const std::byte* all, std::size_t ranks, std::size_t elements, double prescale,
                  double postscale, std::byte* out, Load load, Store store) {
  const auto* in = reinterpret_cast<const std::uint16_t*>(all);
  std::vector<float> wide(ranks * elements);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = load(in[i]);
  combine(wide.data(), ranks, elements, prescale, postscale);
  auto* result = reinterpret_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < elements; ++i) result[i] = store(wide[i]);
}

template <typename T>
void combine_wide(std::byte* all, std::size_t ranks, std::size_t elements, double prescale,
                  double postscale, std::byte* out) {
  combine(reinterpret_cast<T*>(all), ranks, elements, prescale, postscale);
  std::copy(all, all + elements * sizeof(T), out);
}

}  // namespace

void combine_adasum(std::byte* all, std::size_t ranks, std::size_t elements, DataType dtype,
                    double prescale, double postscale, std::byte* out) {
  using collective::from_bf16, collective::from_f16, collective::to_bf16, collective::to_f16;
  switch (dtype) {
    case DataType::f32:
      return combine_wide<float>(all, ranks, elements, prescale, postscale, out);
    case DataType::f64:
      return combine_wide<double>(all, ranks, elements, prescale, postscale, out);
    case DataType::f16:
      return combine_half(
          all, ranks, elements, prescale, postscale, out,
          [](std::uint16_t bits) { return from_f16(bits); }, [](float x) { return to_f16(x); });
    case DataType::bf16:
      return combine_half(
          all, ranks, elements, prescale, postscale, out,
          [](std::uint16_t bits) { return from_bf16(bits); }, [](float x) { return to_bf16(x); });
    default:
      COHORT_CHECK(false, "adasum of {}", to_string(dtype));
  }
}

}  // namespace cohort::capi
