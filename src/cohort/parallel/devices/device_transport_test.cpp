#include "cohort/parallel/devices/device_transport.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/collective/form.h"

namespace cohort::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<DeviceCard> two_ranks() {
  const DeviceCard card{.wanted = DeviceTransport::fitting,
                        .host = "a",
                        .process = "1",
                        .gpu = "0",
                        .nccl = "2.28.9"};
  std::vector<DeviceCard> cards{card, card};
  cards[1].process = "2";
  cards[1].gpu = "1";
  return cards;
}

std::string refusal_of(const std::vector<DeviceCard>& cards) {
  return message_of<InvalidInput>([&] { choose_device_transport(cards); });
}

TEST(DeviceTransport, IsNcclWhereEachRankHasAGpu) {
  EXPECT_EQ(choose_device_transport(two_ranks()).transport, DeviceTransport::nccl);
  auto hosts = two_ranks();
  hosts[1].host = "b";
  hosts[1].gpu = "0";  // of the other host
  EXPECT_EQ(choose_device_transport(hosts).transport, DeviceTransport::nccl);
}

TEST(DeviceTransport, IsIpcWhereNcclCannotBeOrWouldTakeTooLong) {
  auto shared = two_ranks();
  shared[1].gpu = "0";
  EXPECT_EQ(choose_device_transport(shared).transport, DeviceTransport::ipc);
  auto changing = two_ranks();
  changing[0].changes = changing[1].changes = true;
  EXPECT_EQ(choose_device_transport(changing).transport, DeviceTransport::ipc);
  auto without = two_ranks();
  without[1].nccl.clear();
  without[1].nccl_problem = "no libnccl.so.2";
  const DeviceChoice choice = choose_device_transport(without);
  EXPECT_EQ(choice.transport, DeviceTransport::ipc);
  EXPECT_THAT(choice.reason, HasSubstr("rank 1: no libnccl.so.2"));
}

TEST(DeviceTransport, IsTheHostWhereNothingElseCanBe) {
  auto cards = two_ranks();
  cards[1].host = "b";
  cards[0].nccl = "2.27.3";
  const DeviceChoice choice = choose_device_transport(cards);
  EXPECT_EQ(choice.transport, DeviceTransport::host);
  EXPECT_THAT(choice.reason,
              AllOf(HasSubstr("another host"), HasSubstr("2.28.9"), HasSubstr("2.27.3")));
}

TEST(DeviceTransport, SharedGpusGoOverNcclOnlyWhereItTakesThem) {
  auto cards = two_ranks();
  cards[1].gpu = "0";
  for (DeviceCard& card : cards) card.wanted = DeviceTransport::nccl;
  EXPECT_THAT(refusal_of(cards), AllOf(HasSubstr("--transport is nccl"), HasSubstr("share a GPU"),
                                       HasSubstr("NCCL_MULTI_RANK_GPU_ENABLE")));
  for (DeviceCard& card : cards) card.nccl_shares_gpus = true;
  EXPECT_EQ(choose_device_transport(cards).transport, DeviceTransport::nccl);
}

TEST(DeviceTransport, ReplicasOfOneProcessOnOneGpuGoThroughTheHost) {
  auto cards = two_ranks();
  cards[1].gpu = "0";
  cards[1].process = "1";
  for (DeviceCard& card : cards) card.nccl_shares_gpus = true;
  const DeviceChoice choice = choose_device_transport(cards);
  EXPECT_EQ(choice.transport, DeviceTransport::host);
  EXPECT_THAT(choice.reason, HasSubstr("replicas of one process share a GPU"));
}

TEST(DeviceTransport, IsTheHostUnlessAnotherIsAskedFor) {
  for (const char* flag : {"auto", "host", "mpi"})
    EXPECT_EQ(parse_device_transport(flag), DeviceTransport::host) << flag;
  EXPECT_EQ(parse_device_transport("gpu"), DeviceTransport::fitting);
  EXPECT_EQ(parse_device_transport("ipc"), DeviceTransport::ipc);
  EXPECT_EQ(parse_device_transport("nccl"), DeviceTransport::nccl);
  auto cards = two_ranks();
  for (DeviceCard& card : cards) card.wanted = DeviceTransport::host;
  EXPECT_EQ(choose_device_transport(cards).transport, DeviceTransport::host);
}

TEST(DeviceTransport, WhatIsAskedForAndCannotBeIsRefusedByName) {
  auto cards = two_ranks();
  cards[1].host = "b";
  for (DeviceCard& card : cards) card.wanted = DeviceTransport::ipc;
  EXPECT_THAT(refusal_of(cards), AllOf(HasSubstr("--transport is ipc"), HasSubstr("another host")));
  cards[1].wanted = DeviceTransport::host;
  EXPECT_THAT(refusal_of(cards), AllOf(HasSubstr("host on rank 1"), HasSubstr("ipc on rank 0")));
}

TEST(DeviceTransport, OnTheCpuNobodyIsAsked) {  // the other rank makes no call
  auto groups = collective::make_inproc_groups(2, std::chrono::milliseconds(100));
  use_devices(*groups[0], torch::kCPU, DeviceTransport::fitting, false, Deadline::never());
  EXPECT_EQ(groups[0]->device(), nullptr);
}

}  // namespace
}  // namespace cohort::parallel
