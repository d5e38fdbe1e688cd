#include "cohort/train/data/batch_maker.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/loader.h"

namespace cohort::train {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Pictures {
  torch::Tensor images, masks, labels;
};

class PictureSource final : public DatasetOf<Pictures> {
 public:
  std::int64_t size() const override { return 8; }
  Pictures get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
    const auto n = static_cast<std::int64_t>(indices.size());
    const auto images = torch::arange(n * 24, torch::kFloat32).view({n, 2, 3, 4});
    return {images + static_cast<float>(key.epoch), images > 3, torch::arange(n)};
  }
};

TEST(BatchMaker, BatchesOfAnyTypeArriveOnTheDeviceWithTheirValues) {
  const auto source = std::make_shared<PictureSource>();
  const BatchMaker host(source), device(source, {.channels_last = true});
  const std::vector<std::int64_t> some{1, 5, 2};
  const AnyBatch expected = host.make(some, {.epoch = 2}).take();
  const AnyBatch made = device.make(some, {.epoch = 2}).take();
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(torch::equal(made.tensors()[i], expected.tensors()[i]));
  const auto last = torch::MemoryFormat::ChannelsLast;
  EXPECT_TRUE(made.as<Pictures>().images.is_contiguous(last));
  EXPECT_FALSE(expected.as<Pictures>().images.is_contiguous(last));
  EXPECT_TRUE(made.as<Pictures>().masks.is_contiguous());
}

TEST(BatchMaker, ATrainingOnTheCpuTakesBatchesAsTheSourceLoadsThem) {
  const auto source = std::make_shared<PictureSource>();
  const BatchMakerPtr maker = batch_maker_for(source, {.channels_last = true});
  const std::vector<std::int64_t> some{0, 7};
  const AnyBatch made = maker->make(some, {}).take();
  EXPECT_TRUE(made.as<Pictures>().images.is_contiguous());
}

TEST(BatchMaker, ErrorsOfASplitSourceSayWhichBatch) {
  class Torn final : public Dataset {
   public:
    std::int64_t size() const override { return 4; }
    Batch get(std::span<const std::int64_t>, const DrawKey&) const override { return {}; }
    std::unique_ptr<const SplitLoad> split(const SplitOptions&) const override {
      throw InvalidInput("the tape is torn");
    }
  };
  Loader loader(std::make_shared<BatchMaker>(std::make_shared<Torn>(), BatchMaker::DeviceOptions{}),
                1, [](std::int64_t) { return std::vector<std::int64_t>{0}; }, {.epoch = 4});
  EXPECT_THAT(message_of<InvalidInput>([&] { loader.next(Deadline::after(30s)); }),
              AllOf(HasSubstr("the tape is torn"), HasSubstr("batch 0 of epoch 4")));
}

TEST(Loader, CountsTheTimeInWhichNoBatchWasReady) {
  class Slow final : public Dataset {
   public:
    std::int64_t size() const override { return 4; }
    Batch get(std::span<const std::int64_t> indices, const DrawKey&) const override {
      std::this_thread::sleep_for(50ms);  // what reading takes here
      const auto n = static_cast<std::int64_t>(indices.size());
      return {torch::zeros({n, 1}), torch::zeros({n})};
    }
  };
  Loader loader(std::make_shared<Slow>(), {{0}, {1}}, {});
  EXPECT_EQ(loader.waited(), 0ns);
  loader.next(Deadline::after(30s));
  EXPECT_GE(loader.waited(), 20ms);
}

}  // namespace
}  // namespace cohort::train
