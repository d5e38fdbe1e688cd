#include "cohort/collective/reduction/kernels.h"

#include "cohort/collective/reduction/kernels_table.h"

namespace cohort::collective {

InstructionSet best_instruction_set() {
  static const InstructionSet best = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return InstructionSet::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
      return InstructionSet::avx2;
    return InstructionSet::plain;
  }();
  return best;
}

const Kernels& kernels(DataType type, ReduceOp op, InstructionSet set) {
  const std::size_t row = static_cast<std::size_t>(type);
  const std::size_t column = op == ReduceOp::average ? 0 : static_cast<std::size_t>(op);
  switch (set) {
    case InstructionSet::avx512:
      return kernels_avx512[row][column];
    case InstructionSet::avx2:
      return kernels_avx2[row][column];
    case InstructionSet::plain:
      break;
  }
  return kernels_plain[row][column];
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  switch (best_instruction_set()) {
    case InstructionSet::avx512:
      return copy_avx512(to, from, bytes);
    case InstructionSet::avx2:
      return copy_avx2(to, from, bytes);
    case InstructionSet::plain:
      return copy_plain(to, from, bytes);
  }
}

void copy_around_cache(void* to, const void* from, std::size_t bytes) {
  switch (best_instruction_set()) {
    case InstructionSet::avx512:
      return copy_around_avx512(to, from, bytes);
    case InstructionSet::avx2:
      return copy_around_avx2(to, from, bytes);
    case InstructionSet::plain:
      return copy_around_plain(to, from, bytes);
  }
}

}  // namespace cohort::collective
