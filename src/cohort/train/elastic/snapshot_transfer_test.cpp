#include "cohort/train/elastic/snapshot_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::elastic {
namespace {

using collective::DataType;
using collective::Group;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

TEST(SnapshotTransfer, EveryReceiverHasWhatWasSent) {
  const nlohmann::json values{{"stage", 7}, {"name", "a state"}};
  const train::TensorMap tensors{{"weight", torch::arange(3'000'000).to(torch::kFloat)},
                                 {"steps", torch::tensor(5, torch::kLong)},
                                 {"nothing", torch::empty({0})}};
  parallel::on_ranks(3, [&](Group& group) {
    if (group.rank() == 1) {
      SnapshotSender sender(group, {0, 2}, {values, tensors}, {soon()});
      sender.wait();
      sender.wait();
      return;
    }
    SnapshotReceiver receiver(group, 1, {soon()});
    EXPECT_EQ(receiver.values(), values);
    const train::TensorMap taken = receiver.take();
    ASSERT_EQ(taken.size(), tensors.size());
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(torch::equal(taken.at(name), tensor)) << name;
  });
}

// Says what a SnapshotSender would, with a checksum that is another tensor's.
void send_damaged(Group& group, int peer) {
  const torch::Tensor tensor = torch::ones({100});
  const auto send = [&](const void* data, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    group.send(&size, 1, DataType::i64, peer, {soon()});
    group.send(data, bytes, DataType::u8, peer, {soon()});
  };
  const auto values = nlohmann::json::to_cbor({{"stage", 7}});
  send(values.data(), values.size());
  const std::string described = train::describe_tensors({{"weight", tensor}});
  send(described.data(), described.size());
  const std::int64_t sum = 12345;
  group.send(tensor.data_ptr(), tensor.nbytes(), DataType::u8, peer, {soon()});
  group.send(&sum, 1, DataType::i64, peer, {soon()});
}

TEST(SnapshotTransfer, ADamagedTensorIsRefusedByName) {
  parallel::on_ranks(2, [&](Group& group) {
    if (group.rank() == 0) return send_damaged(group, 1);
    SnapshotReceiver receiver(group, 0, {soon()});
    EXPECT_THAT(message_of<PeerError>([&] { receiver.take(); }),
                HasSubstr("weight was damaged on its way from replica 0"));
  });
}

TEST(SnapshotTransfer, AnAbortedGroupEndsBothSides) {
  parallel::on_ranks(2, [&](Group& group) {
    if (group.rank() == 0) {
      SnapshotSender sender(group, {1}, {{{"stage", 7}}, {{"weight", torch::ones({5'000'000})}}},
                            {soon()});
      EXPECT_THAT(message_of<Error>([&] { sender.wait(); }), HasSubstr("enough"));
      return;
    }
    SnapshotReceiver receiver(group, 0, {soon()}, [&] { group.abort("enough of it"); });
    EXPECT_THAT(message_of<Error>([&] { receiver.take(); }), HasSubstr("enough"));
  });
}

}  // namespace
}  // namespace cohort::elastic
