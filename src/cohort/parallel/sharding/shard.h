#pragma once

#include <string>

namespace cohort::parallel {

// What of a training's memory the workers divide among themselves, each word with all before it
// (docs/large-models.md): the optimizer's state (ZeRO-1), the gradients (ZeRO-2), the parameters
// (ZeRO-3).
enum class Shard { none, optimizer, gradients, parameters };

// By their names, for flags; throws InvalidInput.
Shard parse_shard(const std::string& text);
std::string to_string(Shard shard);

}  // namespace cohort::parallel
