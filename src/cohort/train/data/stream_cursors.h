#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <utility>

namespace cohort::train {

// What a stream is a function of.
struct StreamKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool operator==(const StreamKey&) const = default;
};

// Streams that stand somewhere in their epoch and are read by one thread at a time. A Stream is a
// pointer; null: none. Thread-safe.
template <typename Stream>
class StreamCursors {
 public:
  static constexpr std::size_t kMost = 8;  // that wait; the one that was given first goes first

  // The stream of `key` that stands nearest before `index`, or there, with its position; null where
  // none does. It is the caller's until give().
  std::pair<std::int64_t, Stream> take(const StreamKey& key, std::int64_t index) {
    const std::lock_guard lock(mutex_);
    auto best = waiting_.end();
    for (auto cursor = waiting_.begin(); cursor != waiting_.end(); ++cursor)
      if (cursor->key == key && cursor->position <= index &&
          (best == waiting_.end() || cursor->position > best->position))
        best = cursor;
    if (best == waiting_.end()) return {0, Stream()};
    std::pair<std::int64_t, Stream> found{best->position, std::move(best->stream)};
    waiting_.erase(best);
    return found;
  }

  void give(const StreamKey& key, std::int64_t position, Stream stream) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({key, position, std::move(stream)});
    if (waiting_.size() > kMost) waiting_.pop_front();
  }

 private:
  struct Cursor {
    StreamKey key;
    std::int64_t position = 0;  // of the sample that it gives next
    Stream stream;
  };

  std::mutex mutex_;
  std::list<Cursor> waiting_;  // guarded by mutex_
};

// InvalidInput each.
void check_stream_index(std::int64_t index, std::int64_t samples);
[[noreturn]] void refuse_short_stream(std::int64_t epoch, std::int64_t ended, std::int64_t samples);
[[noreturn]] void refuse_long_stream(std::int64_t epoch, std::int64_t samples);

}  // namespace cohort::train
