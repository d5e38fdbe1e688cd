#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

// The language model of Radford et al., "Language models are unsupervised multitask learners"
// (2019): GPT-2. Blocks of attention and a small network, each behind its norm, with learned
// positions; the table of tokens is the output layer too. Names of parameters are those of the
// published weights.
namespace examples {

struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  std::int64_t sequence = 128;    // most tokens that it sees at once
  std::int64_t vocabulary = 256;  // bytes
  double dropout = 0.1;
  double norm_epsilon = 1e-5;
};

// "1M", "6M", "25M", "124M": about so many parameters; the last is the published GPT-2. Throws
// InvalidInput that names all of them.
GptOptions gpt_preset(const std::string& name);
std::vector<std::string> gpt_presets();
// Throws InvalidInput for sizes that cannot be.
void check(const GptOptions& options);

struct AttentionImpl : torch::nn::Cloneable<AttentionImpl> {
  explicit AttentionImpl(const GptOptions& options) : options_(options) { reset(); }
  void reset() override;
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Linear c_attn{nullptr}, c_proj{nullptr};
  torch::nn::Dropout dropout{nullptr};

 private:
  GptOptions options_;
};
TORCH_MODULE(Attention);

struct MlpImpl : torch::nn::Cloneable<MlpImpl> {
  explicit MlpImpl(const GptOptions& options) : options_(options) { reset(); }
  void reset() override;
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Linear c_fc{nullptr}, c_proj{nullptr};
  torch::nn::Dropout dropout{nullptr};

 private:
  GptOptions options_;
};
TORCH_MODULE(Mlp);

struct GptBlockImpl : torch::nn::Cloneable<GptBlockImpl> {
  explicit GptBlockImpl(const GptOptions& options) : options_(options) { reset(); }
  void reset() override;
  torch::Tensor forward(torch::Tensor x);

  torch::nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  Attention attn{nullptr};
  Mlp mlp{nullptr};

 private:
  GptOptions options_;
};
TORCH_MODULE(GptBlock);

struct GptImpl : torch::nn::Cloneable<GptImpl> {
  explicit GptImpl(const GptOptions& options) : options_(options) { reset(); }
  void reset() override;

  // (batch, tokens) numbers of tokens -> (batch, tokens, vocabulary): how likely each token is to
  // come next, as logits. At most `sequence` tokens.
  torch::Tensor forward(const torch::Tensor& ids);

  const GptOptions& options() const { return options_; }
  std::int64_t parameter_count() const;

  torch::nn::Embedding wte{nullptr}, wpe{nullptr};  // tokens, positions
  torch::nn::Dropout drop{nullptr};
  torch::nn::Sequential h{nullptr};  // the blocks
  torch::nn::LayerNorm ln_f{nullptr};

 private:
  GptOptions options_;
};
TORCH_MODULE(Gpt);

// AdamW with decay for the matrices and none for norms and biases.
std::shared_ptr<torch::optim::AdamW> make_adamw(torch::nn::Module& model, double learning_rate,
                                                double weight_decay);

}  // namespace examples
