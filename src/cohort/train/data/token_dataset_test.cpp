#include "cohort/train/data/token_dataset.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/train/data/loader.h"

namespace cohort::train {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers counting_tokens(std::int64_t count) {
  Numbers tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(TokenDataset, TargetsAreTheTokensAfterTheData) {
  const TokenDataset dataset(counting_tokens(21), {.sequence = 4});
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.tokens(), 21);
  const Batch batch = dataset.get(Numbers{4, 0}, {});
  EXPECT_TRUE(
      torch::equal(batch.data, torch::tensor({{16, 17, 18, 19}, {0, 1, 2, 3}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.target, batch.data + 1));
  EXPECT_EQ(dataset.get(Numbers{}, {}).data.sizes(), torch::IntArrayRef({0, 4}));
  EXPECT_THROW(dataset.get(Numbers{5}, {}), InvalidInput);
  EXPECT_EQ(TokenDataset(counting_tokens(21), {.sequence = 4, .stride = 1}).size(), 17);
}

TEST(TokenDataset, SeveralFilesAreReadByALoaderWithThreads) {
  ScratchFolder folder;
  write_token_file(folder / "a.bin", counting_tokens(33));
  write_token_file(folder / "b.bin", counting_tokens(65));
  const auto dataset = std::make_shared<TokenDataset>(
      std::vector<std::filesystem::path>{folder / "a.bin", folder / "b.bin"},
      TokenDatasetOptions{.sequence = 8, .vocabulary = 65});
  ASSERT_EQ(dataset->size(), 4 + 8);
  Loader loader(dataset, 12, [](std::int64_t number) { return Numbers{number}; }, {},
                {.depth = 4, .threads = 3});
  Numbers first;
  while (const auto batch = loader.next())
    first.push_back(batch->as<Batch>().data[0][0].item<std::int64_t>());
  EXPECT_EQ(first, (Numbers{0, 8, 16, 24, 0, 8, 16, 24, 32, 40, 48, 56}));
}

}  // namespace
}  // namespace cohort::train
