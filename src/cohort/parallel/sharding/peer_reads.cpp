#include "cohort/parallel/sharding/peer_reads.h"

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"

namespace cohort::parallel {

using collective::DataType;
using collective::Group;

namespace {

constexpr std::size_t kRequestWords = 4;

}  // namespace

PeerReads::PeerReads(Group& group, std::span<const int> ranks, Answer answer)
    : answer_(std::move(answer)),
      requests_(group.subgroup(ranks)),
      replies_(group.subgroup(ranks)) {
  static_assert(sizeof(Request) == kRequestWords * sizeof(std::int64_t));
  for (int peer = 0; peer < requests_->size(); ++peer)
    if (peer != requests_->rank()) servers_.emplace_back([this, peer] { serve(peer); });
}

PeerReads::~PeerReads() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  const std::string why = fmt::format("rank {} ends its training", requests_->rank());
  requests_->abort(why);
  replies_->abort(why);
}

void PeerReads::publish() {
  {
    const std::lock_guard lock(mutex_);
    ++version_;
  }
  changed_.notify_all();
}

bool PeerReads::wait_for(std::int64_t version) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || version_ >= version; });
  return !closing_;
}

// Ends when the sub-groups are broken: by the end of this rank's or the peer's training, or by the
// loss of a rank, which the collectives of the training report.
void PeerReads::serve(int peer) {
  try {
    while (true) {
      Request request;
      requests_->recv(&request, kRequestWords, DataType::i64, peer, {Deadline::never()});
      if (!wait_for(request.version)) return;
      Item item;
      try {
        item = answer_(request.kind, request.item);
        const auto bytes = static_cast<std::int64_t>(item.bytes.size());
        COHORT_CHECK(request.bytes < 0 || request.bytes == bytes,
                     "rank {} reads {} bytes of an item of {}", peer, request.bytes, bytes);
      } catch (const std::exception& error) {
        replies_->abort(error.what());
        return;
      }
      const auto bytes = static_cast<std::int64_t>(item.bytes.size());
      if (request.bytes < 0) replies_->send(&bytes, 1, DataType::i64, peer);
      if (bytes > 0) replies_->send(item.bytes.data(), item.bytes.size(), DataType::u8, peer);
    }
  } catch (const Error& error) {
    log::debug("rank {} answers no more reads of rank {}: {}", requests_->rank(), peer,
               error.what());
  }
}

void PeerReads::ask(int rank, const Request& request, Deadline deadline) {
  requests_->send(&request, kRequestWords, DataType::i64, rank, {deadline});
}

collective::Work PeerReads::begin_read(int rank, std::int64_t kind, std::int64_t item,
                                       std::span<std::byte> into, Deadline deadline) {
  ask(rank, {kind, item, version_, static_cast<std::int64_t>(into.size())}, deadline);
  return replies_->recv_async(into.data(), into.size(), DataType::u8, rank, {deadline});
}

void PeerReads::read(int rank, std::int64_t kind, std::int64_t item, std::span<std::byte> into,
                     Deadline deadline) {
  ask(rank, {kind, item, version_, static_cast<std::int64_t>(into.size())}, deadline);
  if (!into.empty()) replies_->recv(into.data(), into.size(), DataType::u8, rank, {deadline});
}

std::string PeerReads::read_text(int rank, std::int64_t kind, std::int64_t item,
                                 Deadline deadline) {
  ask(rank, {kind, item, version_, -1}, deadline);
  std::int64_t bytes = 0;
  replies_->recv(&bytes, 1, DataType::i64, rank, {deadline});
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (bytes > 0) replies_->recv(text.data(), text.size(), DataType::u8, rank, {deadline});
  return text;
}

}  // namespace cohort::parallel
