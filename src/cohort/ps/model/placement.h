#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/ps/model/model_spec.h"

namespace cohort::ps {

// A run of a block's elements that lives on one server: the unit that is pushed, updated and
// pulled. Its number is its index in the placement, the same everywhere.
struct Slice {
  int server = 0;
  int block = 0;
  std::uint64_t offset = 0;  // in the block, in elements
  std::uint64_t elements = 0;

  bool operator==(const Slice&) const = default;
};

constexpr std::uint64_t kMaxSliceBytes = 1 << 20;
constexpr std::uint64_t kMinSplitBytes = 64 << 10;  // a smaller block stays whole

// Cuts the blocks into slices and spreads them over `servers`, balanced by bytes: blocks of at
// least kMinSplitBytes a server are dealt to all servers alike, so that all of them work on each;
// smaller ones go, whole, where there is least so far. No slice is larger than kMaxSliceBytes; cuts
// are multiples of 64 bytes. Slices stand in the order of their blocks and offsets. A pure function
// of its arguments: every task computes the same.
std::vector<Slice> place(const ModelSpec& spec, int servers);

// Arrays of optimizer state that a slice has: the most that any part in it needs (update_rule.h).
int slot_count(const ModelSpec& spec, const Slice& slice);

// For people: a line a server with its bytes and share, a line a slice with the parts in it. Tables
// are named with how their rows are spread.
std::string describe(const ModelSpec& spec, std::span<const Slice> slices, int servers);

// The server that a row of a table lives on.
int server_of_key(std::uint64_t key, int servers);

}  // namespace cohort::ps
