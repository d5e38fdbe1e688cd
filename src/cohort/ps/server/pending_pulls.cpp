#include "cohort/ps/server/pending_pulls.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

constexpr std::size_t kMaxRequests = 256;  // of one worker that wait

}  // namespace

void PendingPulls::pull(int worker, const Pull& pull) { wait_or_answer({worker, pull, {}}); }

void PendingPulls::pull_rows(int worker, const RowsPull& pull, std::span<const std::byte> keys) {
  Waiting waiting{worker, pull, {}};
  waiting.keys.resize(keys.size() / sizeof(std::uint64_t));
  std::memcpy(waiting.keys.data(), keys.data(), keys.size());
  wait_or_answer(std::move(waiting));
}

void PendingPulls::wait_or_answer(Waiting waiting) {
  const int worker = waiting.worker;
  const auto of_worker = std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
    return other.worker == worker;
  });
  const Outbox* outbox = peers_.outbox(worker);
  const std::size_t requests =
      static_cast<std::size_t>(of_worker) + (outbox == nullptr ? 0 : outbox->pulls());
  if (requests >= kMaxRequests)
    throw ProtocolError(fmt::format("worker/{} has {} requests under way", worker, requests));
  if (!try_answer(waiting)) waiting_.push_back(std::move(waiting));
}

bool PendingPulls::try_answer(const Waiting& waiting) {
  Outbox* outbox = peers_.outbox(waiting.worker);
  if (outbox == nullptr) return true;
  if (const auto* pull = std::get_if<Pull>(&waiting.request)) {
    if (clocks_.slowest() < pull->clock) return false;
    outbox->add_pull(*pull);
    return true;
  }
  const auto& pull = std::get<RowsPull>(waiting.request);
  SparseTable& table = state_.table(pull.table);
  if (together_ ? table.version() + 1 < pull.sequence : !clocks_.allows(pull.sequence))
    return false;
  const auto dimension = static_cast<std::size_t>(table.spec().dimension);
  std::string values(waiting.keys.size() * dimension * sizeof(float), '\0');
  table.read(waiting.keys, reinterpret_cast<float*>(values.data()));
  outbox->add(Rows{pull.request, table.version()}, std::move(values));
  return true;
}

void PendingPulls::answer() {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return try_answer(waiting); });
}

void PendingPulls::forget(int worker) {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.worker == worker; });
}

}  // namespace cohort::ps
