#pragma once

#include <cstdint>
#include <vector>

#include "gpt_model.h"

namespace examples {

struct SamplingOptions {
  std::int64_t tokens = 200;  // to be made
  double temperature = 0.8;   // below 1: the likely ones are taken more often; 0: always the first
  std::int64_t top_k = 40;    // only among the k most likely; 0: among all
  std::uint64_t seed = 1;
};

// Throws InvalidInput.
void check(const SamplingOptions& options);

// Goes on from `prompt` (at least one token), token by token; returns the new ones. Draws from a
// generator of its own: the same model, prompt and options give the same tokens. Leaves the model
// in evaluation.
std::vector<std::int64_t> sample(Gpt& model, std::vector<std::int64_t> prompt,
                                 const SamplingOptions& options);

}  // namespace examples
