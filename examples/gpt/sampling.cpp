#include "sampling.h"

#include <cohort/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace examples {
namespace {

// The number of one token, from the logits of all. `draw` is in [0, 1).
std::int64_t choose(const torch::Tensor& logits, const SamplingOptions& options, double draw) {
  if (options.temperature == 0) return logits.argmax().item<std::int64_t>();
  const std::int64_t all = logits.size(0);
  const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, all) : all;
  const auto [best, ids] = logits.topk(kept);
  const auto sums = (best / options.temperature).softmax(0).cumsum(0);
  const auto before = (sums <= draw * sums[-1]).sum().item<std::int64_t>();
  return ids[std::min(before, kept - 1)].item<std::int64_t>();
}

}  // namespace

void check(const SamplingOptions& options) {
  if (options.tokens < 0)
    throw cohort::InvalidInput(fmt::format("--sample must be 0 or more, got {}", options.tokens));
  if (options.temperature < 0)
    throw cohort::InvalidInput(
        fmt::format("--temperature must be 0 or more, got {}", options.temperature));
  if (options.top_k < 0)
    throw cohort::InvalidInput(fmt::format("--top_k must be 0 or more, got {}", options.top_k));
}

std::vector<std::int64_t> sample(Gpt& model, std::vector<std::int64_t> prompt,
                                 const SamplingOptions& options) {
  check(options);
  if (prompt.empty())
    throw cohort::InvalidInput("there is nothing to go on from",
                               {.advice = "Give a --prompt of at least one token."});
  const torch::NoGradGuard no_gradients;
  model->eval();
  const auto device = model->wte->weight.device();
  const auto sequence = static_cast<std::size_t>(model->options().sequence);
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto draws = torch::rand({options.tokens}, generator, torch::kFloat64);
  std::vector<std::int64_t> text = std::move(prompt);
  const std::size_t given = text.size();
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::size_t seen = std::min(text.size(), sequence);
    const auto ids = torch::tensor(std::vector<std::int64_t>(
                                       text.end() - static_cast<std::ptrdiff_t>(seen), text.end()))
                         .to(device);
    const auto logits = model->forward(ids.unsqueeze(0))[0][-1].to(torch::kCPU, torch::kFloat64);
    text.push_back(choose(logits, options, draws[i].item<double>()));
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(given), text.end()};
}

}  // namespace examples
