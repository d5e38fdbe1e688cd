#pragma once

#include <array>
#include <cstdint>
#include <vector>

// Random numbers from counters: what is drawn depends on (seed, stream, a, b, position) alone,
// never on who draws it, on which thread, or what was drawn before. So a job gives the same bits
// whatever the number of workers, and resumes from a few integers.
//
// The mixer is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011),
// which passes BigCrush for keys and counters that merely count up. A chain of splitmix64
// finalisers would be as fast, but it is not shown that its streams for neighbouring keys are
// independent.
namespace cohort {

// What a number is drawn for: two purposes with the same counters get unrelated numbers. Values are
// part of "the same bits": never renumber one. Yours begin at kUser.
enum class RandomStream : std::uint64_t {
  kShuffle = 1,
  kDropout = 2,
  kAugmentation = 3,
  kInitialisation = 4,
  kEmbeddingRow = 5,
  kUser = 1'000'000,
};

// One block of Philox4x32-10.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// The endless sequence of numbers that belongs to (seed, stream, a, b). A small value: cheap to
// make, one for each sample. Thread-compatible.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, RandomStream stream, std::uint64_t a = 0, std::uint64_t b = 0);

  std::uint64_t next();
  // The next draw is number `position` of the sequence, counted from 0.
  void seek(std::uint64_t position) { position_ = position; }

  // Uniform in [0, bound), without bias. bound must not be 0. Takes one draw, rarely more.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, 1), a multiple of 2^-24.
  float uniform_float() { return static_cast<float>(next() >> 40) * 0x1.0p-24f; }

 private:
  std::uint64_t key_;
  std::uint64_t high_;  // the upper half of Philox's counter
  std::uint64_t position_ = 0;
  std::uint64_t odd_ = 0;  // the second half of the block of `odd_position_`
  std::uint64_t odd_position_ = ~std::uint64_t{0};
};

// The order of an epoch: 0..n-1, shuffled. The same on every worker and every machine.
// 8 bytes a sample. Throws InvalidInput when n is negative.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

// For seeding a generator (dropout) before a virtual shard of a step is computed.
std::uint64_t shard_seed(std::uint64_t seed, std::int64_t epoch, std::int64_t step,
                         std::int64_t shard);

}  // namespace cohort
