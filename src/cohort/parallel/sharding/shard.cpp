#include "cohort/parallel/sharding/shard.h"

#include <array>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

constexpr std::array<std::pair<Shard, const char*>, 4> kShardNames = {
    {{Shard::none, "none"},
     {Shard::optimizer, "optimizer"},
     {Shard::gradients, "gradients"},
     {Shard::parameters, "parameters"}}};

}  // namespace

Shard parse_shard(const std::string& text) {
  for (const auto& [shard, name] : kShardNames)
    if (text == name) return shard;
  throw InvalidInput(fmt::format("'{}' is nothing that workers can divide", text),
                     {.advice = "Give none, optimizer, gradients or parameters."});
}

std::string to_string(Shard shard) { return kShardNames[static_cast<std::size_t>(shard)].second; }

}  // namespace cohort::parallel
