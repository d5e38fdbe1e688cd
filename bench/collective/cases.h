#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/targets.h"

// What all systems measure, in the same way: an in-place all-reduce (sum) of `bytes` bytes. A
// worker program runs one rank and prints a line a case; collective_bench gathers them.
namespace cohort::bench {

// Every rank gets a core of its own where there are enough: what mpirun does by itself.
inline void bind_to_core(int rank, int size) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < size) return;
  int skip = rank;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
    CPU_ZERO(&allowed);
    CPU_SET(core, &allowed);
    ::sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

struct Case {
  std::string type;  // f32, bf16
  std::size_t bytes = 0;
  std::string memory;  // "group": from the group's allocator; "own": the caller's
};

inline std::vector<Case> make_cases(bool full) {
  std::vector<std::size_t> sizes{64, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  if (full) sizes.push_back(256 << 20);
  std::vector<Case> cases;
  for (const std::size_t bytes : sizes) {
    cases.push_back({"f32", bytes, "group"});
    cases.push_back({"f32", bytes, "own"});
  }
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{64} << 20})
    cases.push_back({"bf16", bytes, "group"});
  return cases;
}

inline int iterations_for(std::size_t bytes) {
  const std::size_t wanted = (std::size_t{256} << 20) / bytes;
  return static_cast<int>(wanted < 7 ? 7 : wanted > 2000 ? 2000 : wanted);
}

// bf16 by rounding what f32 has: exact for the small integers used here.
inline std::uint16_t to_bf16_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

// What rank gives at element i, small enough to be exact in bf16.
inline float given(int rank, std::size_t i) {
  return static_cast<float>((i % 5) + static_cast<std::size_t>(rank));
}

inline void fill(const Case& what, void* data, int rank, bool zeros) {
  if (what.type == "f32") {
    auto* x = static_cast<float*>(data);
    for (std::size_t i = 0; i < what.bytes / 4; ++i) x[i] = zeros ? 0.0f : given(rank, i);
  } else {
    auto* x = static_cast<std::uint16_t*>(data);
    for (std::size_t i = 0; i < what.bytes / 2; ++i)
      x[i] = zeros ? 0 : to_bf16_bits(given(rank, i));
  }
}

inline bool verify(const Case& what, const void* data, int size) {
  const auto expected = [&](std::size_t i) {
    float sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += given(rank, i);
    return sum;
  };
  if (what.type == "f32") {
    const auto* x = static_cast<const float*>(data);
    for (std::size_t i = 0; i < what.bytes / 4; ++i)
      if (x[i] != expected(i)) return false;
  } else {
    const auto* x = static_cast<const std::uint16_t*>(data);
    for (std::size_t i = 0; i < what.bytes / 2; ++i)
      if (x[i] != to_bf16_bits(expected(i))) return false;
  }
  return true;
}

// Verifies one call, then times many, and prints
//   case TYPE BYTES MEMORY RANK MIN MEDIAN P99 (microseconds)
// Exits with 3 when the result is wrong.
template <typename AllReduce>
void measure(const Case& what, void* data, int rank, int size, AllReduce&& all_reduce) {
  using Clock = std::chrono::steady_clock;
  fill(what, data, rank, false);
  all_reduce();
  if (!verify(what, data, size)) {
    std::fprintf(stderr, "rank %d: wrong result for %s, %zu bytes\n", rank, what.type.c_str(),
                 what.bytes);
    std::exit(3);
  }
  fill(what, data, rank, true);
  const int iterations = iterations_for(what.bytes);
  for (int i = 0; i < (iterations + 4) / 5; ++i) all_reduce();
  std::vector<double> micros;
  for (int i = 0; i < iterations; ++i) {
    const auto start = Clock::now();
    all_reduce();
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  const Spread spread(std::move(micros));
  std::printf("case %s %zu %s %d %.3f %.3f %.3f\n", what.type.c_str(), what.bytes,
              what.memory.c_str(), rank, spread.min, spread.median, spread.p99);
  std::fflush(stdout);
}

}  // namespace cohort::bench
