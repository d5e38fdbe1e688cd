#include "cohort/train/data/image_dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/train/data/test_folder_test.h"
#include "cohort/train/data/transforms.h"

namespace cohort::train {
namespace {

using Indices = std::vector<std::int64_t>;
using ImageDatasetTest = DataTest;

TEST_F(ImageDatasetTest, GivesFloatsFromZeroToOneAndTheLabels) {
  write("t10k-images-idx3-ubyte", idx_bytes({2, 1, 3}, {0, 51, 255, 102, 0, 255}));
  write("t10k-labels-idx1-ubyte", idx_bytes({2}, {9, 4}));
  for (const Storage storage : {Storage::kMemory, Storage::kStream}) {
    const auto dataset =
        std::make_shared<ImageDataset>(open_mnist(folder_, Split::kTest, storage, "mnist"));
    const Batch batch = dataset->get(Indices{1, 0}, {});
    EXPECT_TRUE(torch::equal(
        batch.data,
        torch::tensor({102.f, 0.f, 255.f, 0.f, 51.f, 255.f}).view({2, 1, 1, 3}) / 255.0f));
    EXPECT_TRUE(torch::equal(batch.target, torch::tensor({4, 9}, torch::kInt64)));
    EXPECT_EQ(dataset->get_raw(Indices{1}, {}).data.scalar_type(), torch::kUInt8);
    EXPECT_EQ(dataset->get(Indices{}, {}).data.sizes(), torch::IntArrayRef({0, 1, 1, 3}));
  }
}

TEST_F(ImageDatasetTest, ADataSetByNameHasTheImagesOfThatName) {
  write("t10k-images-idx3-ubyte", idx_bytes({1, 1, 3}, {0, 51, 255}));
  write("t10k-labels-idx1-ubyte", idx_bytes({1}, {9}));
  EXPECT_THROW(mnist(folder_, Split::kTest), InvalidInput);
  EXPECT_THROW(fashion_mnist(folder_, Split::kTest), InvalidInput);
}

TEST_F(ImageDatasetTest, AnyIdxFileBecomesATensor) {
  const auto file = write("x", idx_bytes({2, 2}, {0, 1, 0, 2, 0xff, 0xff, 1, 0}, 0x0b));
  EXPECT_TRUE(torch::equal(to_tensor(read_idx(file)),
                           torch::tensor({1, 2, -1, 256}, torch::kInt16).view({2, 2})));
}

TEST(FashionMnistDataset, HasThePublishedMeanAndDeviation) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  const auto dataset = fashion_mnist(data_folder("fashion-mnist", ""), Split::kTrain);
  Indices all(static_cast<std::size_t>(dataset->size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const auto data = dataset->get(all, {}).data;
  EXPECT_EQ(data.sizes(), torch::IntArrayRef({60000, 1, 28, 28}));
  EXPECT_NEAR(data.mean().item<double>(), 0.2860, 1e-4);
  EXPECT_NEAR(data.std().item<double>(), 0.3530, 1e-4);
}

}  // namespace
}  // namespace cohort::train
