#include "gpt_model.h"

#include <cohort/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "attention.h"

namespace examples {
namespace {

const std::vector<std::pair<std::string, GptOptions>>& presets() {
  static const std::vector<std::pair<std::string, GptOptions>> all{
      {"1M", {.layers = 4, .heads = 4, .width = 128, .sequence = 128}},
      {"6M", {.layers = 6, .heads = 6, .width = 288, .sequence = 256}},
      {"25M", {.layers = 8, .heads = 8, .width = 512, .sequence = 512}},
      {"124M", {.layers = 12, .heads = 12, .width = 768, .sequence = 1024, .vocabulary = 50257}}};
  return all;
}

constexpr double kInitialScale = 0.02;

torch::nn::Linear linear(std::int64_t in, std::int64_t out, double scale) {
  torch::nn::Linear layer(in, out);
  torch::nn::init::normal_(layer->weight, 0, scale);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

torch::nn::LayerNorm norm(const GptOptions& options) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({options.width}).eps(options.norm_epsilon));
}

// What is added to the sum of all layers begins smaller the more of them there are.
double residual_scale(const GptOptions& options) {
  return kInitialScale / std::sqrt(2.0 * static_cast<double>(options.layers));
}

}  // namespace

GptOptions gpt_preset(const std::string& name) {
  for (const auto& [known, options] : presets())
    if (known == name) return options;
  throw cohort::InvalidInput(
      fmt::format("'{}' is not a size of the model", name),
      {.advice = fmt::format("Give one of {}.", fmt::join(gpt_presets(), ", "))});
}

std::vector<std::string> gpt_presets() {
  std::vector<std::string> names;
  for (const auto& [name, options] : presets()) names.push_back(name);
  return names;
}

void check(const GptOptions& options) {
  const auto expect_positive = [](const char* flag, std::int64_t value) {
    if (value < 1)
      throw cohort::InvalidInput(fmt::format("--{} must be at least 1, got {}", flag, value));
  };
  expect_positive("num_layers", options.layers);
  expect_positive("num_heads", options.heads);
  expect_positive("width", options.width);
  expect_positive("sequence", options.sequence);
  expect_positive("vocabulary", options.vocabulary);
  if (options.width % options.heads != 0)
    throw cohort::InvalidInput(fmt::format("--width {} cannot be divided among --num_heads {}",
                                           options.width, options.heads),
                               {.advice = "Give a multiple of the heads."});
  if (options.dropout < 0 || options.dropout >= 1)
    throw cohort::InvalidInput(
        fmt::format("--dropout must be at least 0 and below 1, got {}", options.dropout));
}

void AttentionImpl::reset() {
  const std::int64_t width = options_.width;
  c_attn = register_module("c_attn", linear(width, 3 * width, kInitialScale));
  c_proj = register_module("c_proj", linear(width, width, residual_scale(options_)));
  dropout = register_module("dropout", torch::nn::Dropout(options_.dropout));
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const auto heads = [&](const torch::Tensor& all) {
    return all.view({batch, tokens, options_.heads, width / options_.heads}).transpose(1, 2);
  };
  const auto parts = c_attn(x).split(width, /*dim=*/2);
  const double dropped = is_training() ? options_.dropout : 0;
  const auto seen = causal_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), dropped);
  return dropout(c_proj(seen.transpose(1, 2).reshape({batch, tokens, width})));
}

void MlpImpl::reset() {
  const std::int64_t width = options_.width;
  c_fc = register_module("c_fc", linear(width, 4 * width, kInitialScale));
  c_proj = register_module("c_proj", linear(4 * width, width, residual_scale(options_)));
  dropout = register_module("dropout", torch::nn::Dropout(options_.dropout));
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  return dropout(c_proj(torch::gelu(c_fc(x), "tanh")));
}

void GptBlockImpl::reset() {
  ln_1 = register_module("ln_1", norm(options_));
  attn = register_module("attn", Attention(options_));
  ln_2 = register_module("ln_2", norm(options_));
  mlp = register_module("mlp", Mlp(options_));
}

torch::Tensor GptBlockImpl::forward(torch::Tensor x) {
  x = x + attn(ln_1(x));
  return x + mlp(ln_2(x));
}

void GptImpl::reset() {
  check(options_);
  wte = register_module("wte", torch::nn::Embedding(options_.vocabulary, options_.width));
  wpe = register_module("wpe", torch::nn::Embedding(options_.sequence, options_.width));
  torch::nn::init::normal_(wte->weight, 0, kInitialScale);
  torch::nn::init::normal_(wpe->weight, 0, kInitialScale);
  drop = register_module("drop", torch::nn::Dropout(options_.dropout));
  h = register_module("h", torch::nn::Sequential());
  for (std::int64_t i = 0; i < options_.layers; ++i) h->push_back(GptBlock(options_));
  ln_f = register_module("ln_f", norm(options_));
}

torch::Tensor GptImpl::forward(const torch::Tensor& ids) {
  const std::int64_t tokens = ids.size(1);
  if (tokens > options_.sequence)
    throw cohort::InvalidInput(fmt::format("{} tokens were given to a model that sees {} at once",
                                           tokens, options_.sequence),
                               {.advice = "Give the last of them, or a larger --sequence."});
  const auto positions = torch::arange(tokens, ids.options().dtype(torch::kInt64));
  auto x = ln_f(h->forward(drop(wte(ids) + wpe(positions))));
  return torch::nn::functional::linear(x, wte->weight);  // one table for both ends
}

std::int64_t GptImpl::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<torch::optim::AdamW> make_adamw(torch::nn::Module& model, double learning_rate,
                                                double weight_decay) {
  std::vector<torch::Tensor> matrices, rest;
  for (const auto& parameter : model.parameters())
    (parameter.dim() >= 2 ? matrices : rest).push_back(parameter);
  const auto options = [&](double decay) {
    return torch::optim::AdamWOptions(learning_rate).betas({0.9, 0.95}).weight_decay(decay);
  };
  using Group = torch::optim::OptimizerParamGroup;
  std::vector<Group> groups{
      Group(matrices, std::make_unique<torch::optim::AdamWOptions>(options(weight_decay))),
      Group(rest, std::make_unique<torch::optim::AdamWOptions>(options(0)))};
  return std::make_shared<torch::optim::AdamW>(groups, options(weight_decay));
}

}  // namespace examples
