#include "cohort/base/data/counter_random.h"

#include <numeric>
#include <utility>

#include "cohort/base/error.h"

namespace cohort {
namespace {

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

struct Pair {
  std::uint64_t first, second;
};

Pair mix(std::uint64_t key, std::uint64_t first, std::uint64_t second) {
  const auto block =
      philox4x32({low(first), high(first), low(second), high(second)}, {low(key), high(key)});
  return {block[0] | std::uint64_t{block[1]} << 32, block[2] | std::uint64_t{block[3]} << 32};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t x = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t y = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(y) ^ counter[1] ^ key[0], low(y), high(x) ^ counter[3] ^ key[1], low(x)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// (seed, stream, a) become a key and an origin of 128 bits together; b counts up from that origin.
CounterRandom::CounterRandom(std::uint64_t seed, RandomStream stream, std::uint64_t a,
                             std::uint64_t b) {
  const Pair mixed = mix(seed, static_cast<std::uint64_t>(stream), a);
  key_ = mixed.first;
  high_ = mixed.second + b;
}

std::uint64_t CounterRandom::next() {
  const std::uint64_t position = position_++;
  if (position == odd_position_) return odd_;
  const Pair block = mix(key_, position / 2, high_);
  if (position % 2 != 0) return block.second;
  odd_ = block.second;
  odd_position_ = position + 1;
  return block.first;
}

// Lemire, "Fast random integer generation in an interval", 2019.
std::uint64_t CounterRandom::below(std::uint64_t bound) {
  COHORT_CHECK(bound != 0, "a random number below 0");
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold)
      product = static_cast<Wide>(next()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  if (n < 0) throw InvalidInput(fmt::format("cannot shuffle {} samples", n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  CounterRandom random(seed, RandomStream::kShuffle, static_cast<std::uint64_t>(epoch));
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

std::uint64_t shard_seed(std::uint64_t seed, std::int64_t epoch, std::int64_t step,
                         std::int64_t shard) {
  CounterRandom random(seed, RandomStream::kDropout, static_cast<std::uint64_t>(epoch),
                       static_cast<std::uint64_t>(shard));
  random.seek(static_cast<std::uint64_t>(step));
  return random.next();
}

}  // namespace cohort
