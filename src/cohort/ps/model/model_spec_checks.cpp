#include "cohort/ps/model/model_spec_checks.h"

#include <cmath>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw InvalidInput("a model's description " + what);
}

void check_rule(const UpdateRule& rule, std::size_t index) {
  const auto within = [&](const char* name, double value, double least, double below) {
    require(std::isfinite(value) && value >= least && value < below,
            below == HUGE_VAL
                ? fmt::format("has {} = {} in group {}, not a number from {}", name, value, index,
                              least)
                : fmt::format("has {} = {} in group {}, not a number from {} to below {}", name,
                              value, index, least, below));
  };
  require(
      static_cast<std::size_t>(rule.kind) <= static_cast<std::size_t>(UpdateRule::Kind::rmsprop),
      fmt::format("has the unknown rule {} in group {}", static_cast<int>(rule.kind), index));
  within("lr", rule.lr, 0, HUGE_VAL);
  within("weight_decay", rule.weight_decay, 0, HUGE_VAL);
  within("momentum", rule.momentum, 0, HUGE_VAL);
  within("dampening", rule.dampening, -HUGE_VAL, HUGE_VAL);
  within("beta1", rule.beta1, 0, 1);
  within("beta2", rule.beta2, 0, 1);
  within("eps", rule.eps, 0, HUGE_VAL);
  within("alpha", rule.alpha, 0, HUGE_VAL);
  within("lr_decay", rule.lr_decay, 0, HUGE_VAL);
  within("initial_accumulator", rule.initial_accumulator, 0, HUGE_VAL);
  require(!rule.nesterov || (rule.momentum > 0 && rule.dampening == 0),
          fmt::format("has nesterov with momentum {} and dampening {} in group {}; it needs a "
                      "momentum and no dampening",
                      rule.momentum, rule.dampening, index));
}

void check_group(const ModelSpec& spec, int group, const std::string& name) {
  require(group >= 0 && static_cast<std::size_t>(group) < spec.groups.size(),
          fmt::format("puts '{}' into group {} of {}", name, group, spec.groups.size()));
}

void check_block(const ModelSpec& spec, std::size_t index) {
  const Block& block = spec.blocks[index];
  require(block.parts.size() <= kMaxParts,
          fmt::format("has {} parts in block {}; at most {} are allowed", block.parts.size(), index,
                      kMaxParts));
  std::uint64_t end = 0;
  for (const Part& part : block.parts) {
    require(part.name.size() <= kMaxNameBytes,
            fmt::format("has a name of {} bytes; at most {} are allowed", part.name.size(),
                        kMaxNameBytes));
    check_group(spec, part.group, part.name);
    require(part.offset >= end,
            fmt::format("has '{}' at element {} of block {}, before element {}, where the part "
                        "before it ends",
                        part.name, part.offset, index, end));
    require(part.offset <= block.elements && part.elements <= block.elements - part.offset,
            fmt::format("has '{}' with {} elements at {} of block {}, which has only {}", part.name,
                        part.elements, part.offset, index, block.elements));
    end = part.offset + part.elements;
  }
}

void check_table(const ModelSpec& spec, const TableSpec& table) {
  check_group(spec, table.group, table.name);
  require(table.dimension >= 1 && table.dimension <= kMaxDimension,
          fmt::format("has rows of {} values in table '{}', not of 1 to {}", table.dimension,
                      table.name, kMaxDimension));
  require(table.rows <= kMaxElements / static_cast<std::uint64_t>(table.dimension),
          fmt::format("has {} rows of {} values in table '{}'; at most {} values are allowed",
                      table.rows, table.dimension, table.name, kMaxElements));
  require(table.admit_after >= 1,
          fmt::format("admits rows of table '{}' after {} occurrences, not after 1 or more",
                      table.name, table.admit_after));
  require(std::isfinite(table.initial_scale) && table.initial_scale >= 0,
          fmt::format("begins rows of table '{}' with the scale {}, not a number from 0",
                      table.name, table.initial_scale));
}

}  // namespace

void check(const ModelSpec& spec) {
  require(spec.workers >= 1 && spec.workers <= kMaxWorkers,
          fmt::format("has {} workers, not 1 to {}", spec.workers, kMaxWorkers));
  require(spec.shards >= spec.workers && spec.shards <= kMaxShards,
          fmt::format("has {} shards for {} workers, not at least one for each and at most {}",
                      spec.shards, spec.workers, kMaxShards));
  require(spec.policy.aggregate >= 0,
          fmt::format("aggregates {} gradients, not 0 or more", spec.policy.aggregate));
  require(spec.policy.staleness >= 0,
          fmt::format("has a staleness of {} steps, not 0 or more", spec.policy.staleness));
  require(spec.groups.size() <= kMaxGroups && spec.blocks.size() <= kMaxBlocks &&
              spec.tables.size() <= kMaxTables,
          fmt::format("has {} groups, {} blocks and {} tables; at most {}, {} and {} are allowed",
                      spec.groups.size(), spec.blocks.size(), spec.tables.size(), kMaxGroups,
                      kMaxBlocks, kMaxTables));
  for (std::size_t i = 0; i < spec.groups.size(); ++i) check_rule(spec.groups[i], i);
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
    require(spec.blocks[i].elements >= 1 && spec.blocks[i].elements <= kMaxElements - elements,
            fmt::format("has {} elements in block {} after {} before it, not 1 or more and at most "
                        "{} in all",
                        spec.blocks[i].elements, i, elements, kMaxElements));
    elements += spec.blocks[i].elements;
    check_block(spec, i);
  }
  for (const TableSpec& table : spec.tables) check_table(spec, table);
}

}  // namespace cohort::ps
