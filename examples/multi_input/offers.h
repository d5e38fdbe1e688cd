#pragma once

#include <cohort/cohort.h>
#include <torch/torch.h>

#include <span>
#include <vector>

// Offers in a shop: a description of some words, and a few numbers. Will one be sold, and at what
// price? Two inputs, one of them masked, and two outputs.
namespace examples {

inline constexpr std::int64_t kWords = 100, kLongest = 12, kNumbers = 4;

// A batch is a struct: its tensors are found, moved and cut by themselves. First dimension: the
// offers.
struct Offers {
  torch::Tensor words;    // (offers, kLongest), numbers of words
  torch::Tensor mask;     // (offers, kLongest), true where there is a word
  torch::Tensor numbers;  // (offers, kNumbers)
  torch::Tensor sold;     // (offers), 0 or 1
  torch::Tensor price;    // (offers), of those that were sold
};

// Made up from a seed: a word and a number each have a worth; what is worth much is sold.
class MadeUpOffers : public cohort::DatasetOf<Offers> {
 public:
  MadeUpOffers(std::int64_t count, std::uint64_t seed) {
    auto fixed = at::detail::createCPUGenerator(1);  // the same worth for every seed
    const auto word_worth = torch::randn({kWords}, fixed);
    const auto number_worth = torch::randn({kNumbers}, fixed);
    auto random = at::detail::createCPUGenerator(seed);
    all_.words = torch::randint(kWords, {count, kLongest}, random, torch::kInt64);
    const auto lengths = torch::randint(1, kLongest + 1, {count, 1}, random, torch::kInt64);
    all_.mask = torch::arange(kLongest).unsqueeze(0) < lengths;
    all_.numbers = torch::randn({count, kNumbers}, random);
    const auto words =
        (word_worth.index_select(0, all_.words.flatten()).view_as(all_.words) * all_.mask).sum(1) /
        lengths.squeeze(1).sqrt();
    const auto worth = words + all_.numbers.matmul(number_worth);
    all_.sold = (worth + 0.5 * torch::randn({count}, random) > 0.5).to(torch::kInt64);
    all_.price = worth + 0.1 * torch::randn({count}, random);
  }

  std::int64_t size() const override { return all_.words.size(0); }

  Offers get(std::span<const std::int64_t> indices, const cohort::DrawKey&) const override {
    const auto where = torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
    return cohort::train::map_tensors(
        all_, [&](const torch::Tensor& tensor) { return tensor.index_select(0, where); });
  }

 private:
  Offers all_;
};

struct OfferNetImpl : torch::nn::Cloneable<OfferNetImpl> {
  OfferNetImpl() { reset(); }

  void reset() override {
    words = register_module("words", torch::nn::Embedding(kWords, 16));
    hidden = register_module("hidden", torch::nn::Linear(16 + kNumbers, 64));
    sold = register_module("sold", torch::nn::Linear(64, 2));
    price = register_module("price", torch::nn::Linear(64, 1));
  }

  struct Output {
    torch::Tensor sold;   // (offers, 2): scores of 0 and 1
    torch::Tensor price;  // (offers)
  };

  Output forward(const Offers& offers) {
    const auto mask = offers.mask.unsqueeze(2).to(torch::kFloat32);
    const auto described = (words(offers.words) * mask).sum(1) / mask.sum(1).sqrt();
    const auto x = torch::relu(hidden(torch::cat({described, offers.numbers}, 1)));
    return {sold(x), price(x).squeeze(1)};
  }

  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr}, sold{nullptr}, price{nullptr};
};
TORCH_MODULE(OfferNet);

// The price counts where something was sold; both means are over all offers of the batch.
inline cohort::Loss offer_loss(OfferNet& net, const Offers& offers) {
  const auto output = net->forward(offers);
  const auto guess = torch::cross_entropy_loss(output.sold, offers.sold);
  const auto error = (output.price - offers.price).square() * offers.sold;
  const auto price = error.sum() / static_cast<double>(offers.sold.size(0));
  return {.mean = guess + price,
          .output = output.sold.detach(),
          .target = offers.sold,
          .values = {{"price_error", price.detach()}}};
}

}  // namespace examples
