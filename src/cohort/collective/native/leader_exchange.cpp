#include "cohort/collective/native/leader_exchange.h"

#include <algorithm>

namespace cohort::collective {

using transport::Lane;

LeaderExchange::LeaderExchange(const Hosts& hosts, const CallRecord& own, std::string mismatch)
    : hosts_(hosts), own_(own), mismatch_(std::move(mismatch)) {}

std::string LeaderExchange::compare(int host, const std::optional<WireRecord>& theirs) const {
  const Peer& other = hosts_.placement.peers[hosts_.leader_of(host)];
  if (!theirs) return fmt::format("{} described its call in an unknown way", other.name());
  if (!theirs->mismatch.empty()) return theirs->mismatch;
  if (same_call(own_, theirs->record)) return {};
  return fmt::format("the ranks' calls differ: {} called {}, {} called {}",
                     hosts_.placement.peers[hosts_.rank].name(), describe(own_), other.name(),
                     describe(theirs->record));
}

void LeaderExchange::send(int host, std::span<const std::byte> data) {
  const int leader = hosts_.leader_of(host);
  auto& message = *sends_.emplace_back(std::make_unique<Message>());
  message.host = host;
  message.head = WireRecord{own_, mismatch_}.encode();
  const bool has_data = mismatch_.empty() && !data.empty();
  if (has_data && data.size() <= WireRecord::kPayloadBytes)
    std::copy(data.begin(), data.end(), WireRecord::payload(message.head));
  message.head_transfer = hosts_.remote.send(leader, Lane::collective, message.head);
  if (has_data && data.size() > WireRecord::kPayloadBytes) {
    message.data_transfer = hosts_.remote.send(leader, Lane::collective, data);
    message.data_bytes = data.size();
  }
}

void LeaderExchange::receive(int host, std::span<std::byte> data) {
  auto& message = *receives_.emplace_back(std::make_unique<Message>());
  message.host = host;
  message.in = data;
  message.head_transfer =
      hosts_.remote.receive(hosts_.leader_of(host), Lane::collective, message.head);
}

void LeaderExchange::wait(Deadline deadline) {
  try {
    compare_all(deadline);
    if (mismatch_.empty()) move_data(deadline);
  } catch (...) {
    // Nothing may touch the caller's memory any more.
    sends_.clear();
    receives_.clear();
    throw;
  }
}

void LeaderExchange::compare_all(Deadline deadline) {
  for (auto& message : receives_) {
    message->head_transfer->wait(WireRecord::kBytes, deadline);
    const std::string found = compare(message->host, WireRecord::decode(message->head));
    if (mismatch_.empty()) mismatch_ = found;
  }
  for (auto& message : sends_) message->head_transfer->wait(WireRecord::kBytes, deadline);
}

void LeaderExchange::move_data(Deadline deadline) {
  for (auto& message : receives_) {
    const std::span<std::byte> in = message->in;
    if (in.size() <= WireRecord::kPayloadBytes) {
      std::copy_n(WireRecord::payload(message->head), in.size(), in.data());
      continue;
    }
    message->data_transfer =
        hosts_.remote.receive(hosts_.leader_of(message->host), Lane::collective, in);
    message->data_bytes = in.size();
  }
  for (auto* messages : {&receives_, &sends_}) {
    for (auto& message : *messages)
      if (message->data_transfer) message->data_transfer->wait(message->data_bytes, deadline);
    messages->clear();
  }
}

}  // namespace cohort::collective
