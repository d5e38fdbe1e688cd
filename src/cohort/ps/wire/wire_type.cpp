#include "cohort/ps/wire/wire_type.h"

#include "cohort/collective/reduction/kernels.h"

namespace cohort::ps {

namespace {

bool is_rounded(ElementType type, WireType wire) {
  return type == ElementType::f32 && wire != WireType::exact;
}

// A sum's accumulator of 16-bit numbers is f32: loading widens, storing rounds.
const collective::Kernels& kernels_of(WireType wire) {
  return collective::kernels(
      wire == WireType::f16 ? collective::DataType::f16 : collective::DataType::bf16,
      collective::ReduceOp::sum);
}

}  // namespace

std::size_t wire_bytes(ElementType type, WireType wire, std::uint64_t elements) {
  return elements * (is_rounded(type, wire) ? 2 : size_of(type));
}

void to_wire(const std::byte* from, ElementType type, WireType wire, std::uint64_t elements,
             std::byte* to) {
  if (is_rounded(type, wire))
    kernels_of(wire).store(to, from, elements);
  else
    collective::copy_bytes(to, from, elements * size_of(type));
}

void from_wire(const std::byte* from, ElementType type, WireType wire, std::uint64_t elements,
               std::byte* to) {
  if (is_rounded(type, wire))
    kernels_of(wire).load(to, from, elements);
  else
    collective::copy_bytes(to, from, elements * size_of(type));
}

}  // namespace cohort::ps
