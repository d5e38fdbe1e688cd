#include "cohort/train/state_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::train {
namespace {

using collective::DataType;
using collective::Group;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

TEST(StateTransfer, EveryReceiverHasWhatWasSent) {
  const nlohmann::json image{{"stage", 7}, {"name", "a state"}};
  const NamedTensors tensors{{"weight", torch::arange(3'000'000).to(torch::kFloat)},
                             {"steps", torch::tensor(5, torch::kLong)},
                             {"nothing", torch::empty({0})}};
  parallel::on_ranks(3, [&](Group& group) {
    if (group.rank() == 1) {
      StateSender sender(group, {0, 2}, image, tensors, soon());
      sender.wait();
      sender.wait();
      return;
    }
    StateReceiver receiver(group, 1, soon());
    EXPECT_EQ(receiver.image(), image);
    const NamedTensors taken = receiver.take();
    ASSERT_EQ(taken.size(), tensors.size());
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(torch::equal(taken.at(name), tensor)) << name;
  });
}

// Says what a StateSender would, with a checksum that is another tensor's.
void send_damaged(Group& group, int peer) {
  const torch::Tensor tensor = torch::ones({100});
  const auto send = [&](const void* data, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    group.send(&size, 1, DataType::i64, peer, {soon()});
    group.send(data, bytes, DataType::u8, peer, {soon()});
  };
  const auto image = nlohmann::json::to_cbor({{"stage", 7}});
  send(image.data(), image.size());
  const std::string described = describe_tensors({{"weight", tensor}});
  send(described.data(), described.size());
  const std::int64_t sum = 12345;
  group.send(tensor.data_ptr(), tensor.nbytes(), DataType::u8, peer, {soon()});
  group.send(&sum, 1, DataType::i64, peer, {soon()});
}

TEST(StateTransfer, ADamagedTensorIsRefusedByName) {
  parallel::on_ranks(2, [&](Group& group) {
    if (group.rank() == 0) return send_damaged(group, 1);
    StateReceiver receiver(group, 0, soon());
    EXPECT_THAT(message_of<Error>([&] { receiver.take(); }),
                HasSubstr("weight was damaged on its way from replica 0"));
  });
}

TEST(StateTransfer, AnAbortedGroupEndsBothSides) {
  parallel::on_ranks(2, [&](Group& group) {
    if (group.rank() == 0) {
      StateSender sender(group, {1}, {{"stage", 7}}, {{"weight", torch::ones({5'000'000})}},
                         soon());
      EXPECT_THAT(message_of<Error>([&] { sender.wait(); }), HasSubstr("enough"));
      return;
    }
    StateReceiver receiver(group, 0, soon(), [&] { group.abort("enough of it"); });
    EXPECT_THAT(message_of<Error>([&] { receiver.take(); }), HasSubstr("enough"));
  });
}

}  // namespace
}  // namespace cohort::train
