#include "cohort/train/data/any_batch.h"

#include <gmock/gmock.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/dataset.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Sentences {
  torch::Tensor ids, mask;
};

struct NestedBatch {
  Sentences sentences;
  std::optional<torch::Tensor> weights;
  std::string language;
  int version = 0;
  std::vector<torch::Tensor> images;
  std::map<std::string, torch::Tensor> features;
  std::array<torch::Tensor, 2> pair;
  std::tuple<torch::Tensor, int> numbered;
};

class NamedBatch {
 public:
  explicit NamedBatch(torch::Tensor values) : values_(std::move(values)) {}
  auto tensors() { return std::tie(values_); }
  const torch::Tensor& values() const { return values_; }

 private:
  torch::Tensor values_;
};

struct Plain {
  int number = 0;
};

static_assert(TensorTree<torch::Tensor> && TensorTree<Batch> && TensorTree<NestedBatch>);
static_assert(TensorTree<NamedBatch> && TensorTree<std::vector<Sentences>>);
static_assert(!TensorTree<Plain> && !TensorTree<std::string> && !TensorTree<int>);

NestedBatch nested(std::int64_t rows) {
  const auto tensor = [rows](int value) { return torch::full({rows, 2}, value); };
  return {.sentences = {tensor(1), tensor(2)},
          .weights = tensor(3),
          .language = "en",
          .version = 7,
          .images = {tensor(4), tensor(5)},
          .features = {{"age", tensor(6)}, {"size", tensor(7)}},
          .pair = {tensor(8), tensor(9)},
          .numbered = {tensor(10), 11}};
}

std::vector<int> first_values(const AnyBatch& batch) {
  std::vector<int> values;
  for (const torch::Tensor& tensor : batch.tensors()) values.push_back(tensor[0][0].item<int>());
  return values;
}

TEST(AnyBatch, SeesEveryTensorOfAStructInOrder) {
  const AnyBatch batch(nested(4));
  EXPECT_THAT(first_values(batch), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(batch.size(), 4);
}

TEST(AnyBatch, CutsEveryTensorAndKeepsTheRest) {
  const AnyBatch part = AnyBatch(nested(4)).narrow(1, 2);
  EXPECT_EQ(part.size(), 2);
  const auto& whole = part.as<NestedBatch>();
  EXPECT_EQ(whole.language, "en");
  EXPECT_EQ(whole.version, 7);
  EXPECT_EQ(std::get<1>(whole.numbered), 11);
  EXPECT_EQ(whole.features.at("size").size(0), 2);
}

TEST(AnyBatch, TakesATensorATupleAMapAndAClassThatNamesItsTensors) {
  const torch::Tensor rows = torch::arange(3);
  EXPECT_EQ(AnyBatch(rows).size(), 3);
  EXPECT_EQ(AnyBatch(std::tuple(rows, rows)).tensors().size(), 2U);
  EXPECT_EQ(AnyBatch(std::map<std::string, torch::Tensor>{{"a", rows}}).size(), 3);
  EXPECT_EQ(AnyBatch(NamedBatch(rows)).narrow(0, 2).as<NamedBatch>().values().size(0), 2);
}

TEST(AnyBatch, LeavesATensorWithoutDimensionsWhole) {
  const AnyBatch batch(std::pair(torch::arange(4), torch::tensor(0.5)));
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ((batch.narrow(0, 2).as<std::pair<torch::Tensor, torch::Tensor>>().second.dim()), 0);
}

TEST(AnyBatch, TellsHowItsTensorsAreArranged) {
  using Arrangement = std::vector<std::string>;
  const torch::Tensor rows = torch::zeros({3, 2}), numbers = torch::zeros({3}, torch::kInt64);
  const auto arrangement = [](auto batch) { return AnyBatch(std::move(batch)).arrangement(); };
  EXPECT_EQ(arrangement(Batch{rows, numbers}),
            (Arrangement{"Float [3, 2] [2, 1]", "Long [3] [1]"}));
  EXPECT_EQ(arrangement(Batch{rows, numbers}), arrangement(Batch{rows + 1, numbers + 1}));
  EXPECT_NE(arrangement(Batch{rows, numbers}),
            arrangement(Batch{torch::zeros({2, 3}).t(), numbers}));

  struct Masked {
    torch::Tensor ids;
    std::optional<torch::Tensor> mask, weights;
  };
  EXPECT_NE(arrangement(Masked{rows, numbers, {}}), arrangement(Masked{rows, {}, numbers}));
  EXPECT_NE(arrangement(Masked{rows, {}, {}}), arrangement(Masked{rows, torch::Tensor(), {}}));
  using Named = std::map<std::string, torch::Tensor>;
  EXPECT_EQ(arrangement(Named{{"a", rows}}), arrangement(Named{{"a", rows}}));
  EXPECT_NE(arrangement(Named{{"a", rows}}), arrangement(Named{{"b", rows}}));
  using Lists = std::vector<std::vector<torch::Tensor>>;
  EXPECT_NE(arrangement(Lists{{rows}, {rows, rows}}), arrangement(Lists{{rows, rows}, {rows}}));
}

TEST(AnyBatch, HasNoArrangementWhereItHoldsMoreThanTensors) {
  EXPECT_EQ(AnyBatch(nested(4)).arrangement(), std::nullopt);
  EXPECT_EQ(AnyBatch(NamedBatch(torch::arange(3))).arrangement(), std::nullopt);
  EXPECT_EQ(AnyBatch(std::pair(torch::arange(3), 1.5)).arrangement(), std::nullopt);
}

TEST(AnyBatch, NamesBothTypesWhereItIsAskedForAsAnother) {
  EXPECT_THAT(message_of<InvalidInput>([] { AnyBatch(Sentences{}).as<Batch>(); }),
              AllOf(HasSubstr("Sentences"), HasSubstr("cohort::train::Batch was asked for")));
  EXPECT_THAT(message_of<InvalidInput>([] { AnyBatch().as<Batch>(); }), HasSubstr("type nothing"));
}

TEST(AnyBatch, RefusesTensorsOfDifferentNumbersOfRows) {
  const AnyBatch batch(std::pair(torch::arange(4), torch::arange(3)));
  EXPECT_THAT(message_of<InvalidInput>([&] { batch.size(); }),
              HasSubstr("tensors of 3 and 4 rows"));
  EXPECT_THAT(message_of<InvalidInput>([&] { check_rows(batch, 4); }),
              HasSubstr("asked for 4 samples"));
  EXPECT_NO_THROW(check_rows(AnyBatch(torch::arange(4)), 4));
  EXPECT_NO_THROW(check_rows(AnyBatch(Batch{}), 0));
}

}  // namespace
}  // namespace cohort::train
