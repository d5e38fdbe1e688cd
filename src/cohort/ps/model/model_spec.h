#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/ps/model/policy.h"
#include "cohort/ps/rules/update_rule.h"

namespace cohort::ps {

// A parameter's place in its block, in elements.
struct Part {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t elements = 0;
  int group = 0;  // into ModelSpec::groups

  bool operator==(const Part&) const = default;
};

// What travels together: small parameters packed, a large one alone. Elements outside the parts are
// padding: always zero.
struct Block {
  ElementType type = ElementType::f32;
  std::uint64_t elements = 0;
  std::vector<Part> parts;  // ascending, disjoint

  bool operator==(const Block&) const = default;
};

// An embedding table, its rows spread over all servers by key.
struct TableSpec {
  std::string name;
  int dimension = 1;
  int group = 0;           // its update rule
  std::uint64_t rows = 0;  // keys are 0..rows-1; 0: any 64-bit key, rows appear when first seen
  int admit_after = 1;     // a key's row is made at its k-th occurrence in a push; before: zeros
  std::uint64_t keep_for = 0;   // steps after its last use that an unused row stays; 0: for ever
  double initial_scale = 0.01;  // rows begin uniform in [-scale, scale], from (seed, key) alone
  std::uint64_t seed = 1;

  bool operator==(const TableSpec&) const = default;
};

// All that the servers of a job have to know of its model, and the workers have to agree on. The
// chief gives it to the servers; every other worker compares its own. A value.
struct ModelSpec {
  std::vector<Block> blocks;  // in the order in which gradients are expected: last layers first
  std::vector<TableSpec> tables;
  std::vector<UpdateRule> groups;
  Policy policy;
  int workers = 1;
  int shards = 1;         // virtual shards of a step (ShardPlan); at least `workers`
  std::string agreement;  // options of the training that must be the same on all workers

  bool operator==(const ModelSpec&) const = default;
};

}  // namespace cohort::ps
