#include "cohort/collective/native/messages.h"

namespace cohort::collective {

using transport::Lane;

void Messages::send(int rank, const std::byte* data, std::size_t bytes) {
  if (bytes > 0)
    transfers_.emplace_back(hosts_.remote.send(rank, Lane::collective, {data, bytes}), bytes);
}

void Messages::receive(int rank, std::byte* data, std::size_t bytes) {
  if (bytes > 0)
    transfers_.emplace_back(hosts_.remote.receive(rank, Lane::collective, {data, bytes}), bytes);
}

void Messages::wait(Deadline deadline) {
  for (auto& [transfer, bytes] : transfers_) transfer->wait(bytes, deadline);
  transfers_.clear();
}

}  // namespace cohort::collective
