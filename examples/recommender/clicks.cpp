#include "clicks.h"

#include <cohort/base/data/counter_random.h>

#include <array>
#include <cmath>

namespace examples {
namespace {

constexpr int kTraits = 4;
constexpr double kClarity = 4;  // the greater, the more a click depends on the traits

cohort::RandomStream stream(std::uint64_t number) {
  return static_cast<cohort::RandomStream>(static_cast<std::uint64_t>(cohort::RandomStream::kUser) +
                                           number);
}

struct Hidden {
  std::int64_t key;
  std::array<double, kTraits> traits;
};

Hidden hidden(std::uint64_t seed, std::uint64_t kind, std::uint64_t number) {
  cohort::CounterRandom random(seed, stream(kind), number);
  Hidden made{static_cast<std::int64_t>(random.next()), {}};
  for (double& trait : made.traits) trait = 2 * random.uniform() - 1;
  return made;
}

}  // namespace

Clicks::Clicks(const Options& options) : options_(options) {
  if (options.users < 1 || options.items < 1 || options.samples < 1)
    throw cohort::InvalidInput(fmt::format("{} clicks of {} users on {} items", options.samples,
                                           options.users, options.items),
                               {.advice = "Give at least 1 of each."});
}

cohort::Batch Clicks::get(std::span<const std::int64_t> indices,
                          const cohort::train::DrawKey&) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  torch::Tensor keys = torch::empty({count, 2}, torch::kInt64);
  torch::Tensor clicked = torch::empty({count});
  std::int64_t* key = keys.data_ptr<std::int64_t>();
  float* click = clicked.data_ptr<float>();
  for (std::int64_t index : indices) {
    cohort::CounterRandom random(options_.seed, stream(0),
                                 static_cast<std::uint64_t>(options_.first + index));
    const std::uint64_t who = random.below(static_cast<std::uint64_t>(options_.users));
    const double popularity = random.uniform();
    const auto what =
        static_cast<std::uint64_t>(popularity * popularity * static_cast<double>(options_.items));
    const Hidden user = hidden(options_.seed, 1, who);
    const Hidden item = hidden(options_.seed, 2, what);
    double agreement = 0;
    for (int i = 0; i < kTraits; ++i)
      agreement +=
          user.traits[static_cast<std::size_t>(i)] * item.traits[static_cast<std::size_t>(i)];
    *key++ = user.key;
    *key++ = item.key;
    *click++ = random.uniform() < 1 / (1 + std::exp(-kClarity * agreement)) ? 1.0f : 0.0f;
  }
  return {keys, clicked};
}

double area_under_curve(const torch::Tensor& ratings, const torch::Tensor& clicked) {
  const torch::Tensor order = ratings.argsort();
  const torch::Tensor positive = clicked.index_select(0, order).to(torch::kFloat64);
  const double clicks = positive.sum().item<double>();
  const double others = static_cast<double>(clicked.numel()) - clicks;
  const torch::Tensor below = (1 - positive).cumsum(0);
  return (below * positive).sum().item<double>() / (clicks * others);
}

}  // namespace examples
