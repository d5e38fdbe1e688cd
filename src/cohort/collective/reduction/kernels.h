#pragma once

#include <cstddef>

#include "cohort/collective/reduction/kernel_functions.h"
#include "cohort/collective/reduction/types.h"

namespace cohort::collective {

enum class InstructionSet { plain, avx2, avx512 };

// The best that this processor has.
InstructionSet best_instruction_set();

// average is sum here. The results of all sets are the same, bit for bit.
const Kernels& kernels(DataType type, ReduceOp op, InstructionSet set = best_instruction_set());

// memcpy, but always by vector moves: the C library's may use `rep movsb`, which some processors
// run ten times slower when source and target have nearly the same offset in their pages, as
// staging buffers and large allocations do (glibc bug 30994).
void copy_bytes(void* to, const void* from, std::size_t bytes);

// The same, written to memory past this core's caches, for bytes that only another core will read
// (StagingChoice). What is written is visible to every thread that sees a later store.
void copy_around_cache(void* to, const void* from, std::size_t bytes);

}  // namespace cohort::collective
