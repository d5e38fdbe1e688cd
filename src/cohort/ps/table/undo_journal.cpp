#include "cohort/ps/table/undo_journal.h"

#include <cstring>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

struct Trailer {
  std::uint64_t offset;
  std::uint64_t length;
};

// Stores of a killed process reach the memory in program order as its successor sees it; what is
// left to forbid is that the compiler moves them.
void publish(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  word.store(value, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

std::uint64_t UndoJournal::first() const {
  return (control_.place.load(std::memory_order_relaxed) >> 32) * kPage;
}
std::uint64_t UndoJournal::capacity() const {
  return (control_.place.load(std::memory_order_relaxed) & 0xffffffff) * kPage;
}
std::uint64_t UndoJournal::left() const {
  return capacity() - control_.used.load(std::memory_order_relaxed);
}

void UndoJournal::move_to(std::uint64_t first, std::uint64_t bytes) {
  COHORT_CHECK(!is_open(), "a journal was moved during a change");
  publish(control_.place, (first / kPage) << 32 | bytes / kPage);
}

void UndoJournal::save(const void* what, std::uint64_t bytes) {
  COHORT_CHECK(record_bytes(bytes) <= left(), "{} bytes for a journal that has {} left", bytes,
               left());
  const std::uint64_t used = control_.used.load(std::memory_order_relaxed);
  std::byte* record = base_ + first() + used;
  const Trailer trailer = {static_cast<std::uint64_t>(static_cast<const std::byte*>(what) - base_),
                           bytes};
  std::memcpy(record, what, bytes);
  std::memcpy(record + record_bytes(bytes) - sizeof trailer, &trailer, sizeof trailer);
  publish(control_.used, used + record_bytes(bytes));
}

void UndoJournal::commit() { publish(control_.used, 0); }

void UndoJournal::undo() {
  const std::byte* begin = base_ + first();
  std::uint64_t used = control_.used.load(std::memory_order_relaxed);
  while (used > 0) {
    Trailer trailer;
    std::memcpy(&trailer, begin + used - sizeof trailer, sizeof trailer);
    used -= record_bytes(trailer.length);
    std::memcpy(base_ + trailer.offset, begin + used, trailer.length);
  }
  publish(control_.used, 0);
}

}  // namespace cohort::ps
