#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>

#include "cohort/train/data/dataset.h"
#include "cohort/train/model/losses.h"
#include "cohort/train/trainer.h"
#include "cohort/train/training_fixture_test.h"

// What the tests of training steps share: sentences of different lengths, and a model of them whose
// forward takes two tensors and gives two.
namespace cohort::train::testing {

struct Sentences {
  torch::Tensor ids, labels;  // [samples, places]; labels of -100 are padding
};

struct TaggerImpl : torch::nn::Cloneable<TaggerImpl> {
  explicit TaggerImpl(double dropout = 0.2) : rate(dropout) { reset(); }

  void reset() override {
    embedding = register_module("embedding", torch::nn::Embedding(11, 6));
    dropout = register_module("dropout", torch::nn::Dropout(rate));
    head = register_module("head", torch::nn::Linear(6, 5));
  }

  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& ids,
                                                  const torch::Tensor& labels) {
    torch::Tensor hidden = dropout(embedding(ids));
    return {head(hidden), labels.ne(-100)};
  }

  double rate;
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Tagger);

// Sentence i has i * 5 % 8 places that are no padding: some have none.
class Corpus final : public DatasetOf<Sentences> {
 public:
  explicit Corpus(std::int64_t samples, bool padding_only = false) {
    ids_ = torch::arange(samples * 7).view({samples, 7}).mul(13).remainder(11);
    labels_ = (ids_ * 3 + 1).remainder(5);
    const auto length = torch::arange(samples).mul(padding_only ? 0 : 5).remainder(8);
    labels_.masked_fill_(torch::arange(7).unsqueeze(0).ge(length.unsqueeze(1)), -100);
  }
  std::int64_t size() const override { return ids_.size(0); }
  Sentences get(std::span<const std::int64_t> indices, const DrawKey&) const override {
    const auto rows =
        torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()), torch::kLong);
    return {ids_.index_select(0, rows), labels_.index_select(0, rows)};
  }
  Sentences all() const { return {ids_, labels_}; }

 private:
  torch::Tensor ids_, labels_;
};

inline SourcePtr sentences(std::int64_t samples) { return std::make_shared<Corpus>(samples); }

inline Loss tag_loss(Tagger& net, const Sentences& batch) {
  return token_cross_entropy(net->forward(batch.ids, batch.labels).first, batch.labels);
}

inline Tagger make_tagger(double dropout = 0.2) {
  torch::manual_seed(5);
  return Tagger(dropout);
}

}  // namespace cohort::train::testing
