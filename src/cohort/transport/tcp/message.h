#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {

// How far one message has come. Its chunks are dealt to the streams in turn: chunk c of message m
// goes over stream (c + m) % streams, in order on each.
class Stripes {
 public:
  Stripes() = default;
  Stripes(std::uint64_t number, std::uint64_t size, int streams)
      : size_(size), chunks_(chunks_of(size)) {
    const auto n = static_cast<std::uint64_t>(streams);
    for (std::uint64_t s = 0; s < n; ++s) next_.push_back((s + n - number % n) % n);
  }

  // The chunk that is due on a stream; at least chunks() when that stream has no more.
  std::uint64_t next(int stream) const { return next_[static_cast<std::size_t>(stream)]; }
  std::uint64_t chunks() const { return chunks_; }
  bool has_next(int stream) const { return next(stream) < chunks_; }
  void advance(int stream) { next_[static_cast<std::size_t>(stream)] += next_.size(); }

  bool complete() const { return first_missing() >= chunks_; }
  std::uint64_t prefix() const { return std::min(size_, first_missing() * kChunkBytes); }

 private:
  std::uint64_t first_missing() const { return *std::min_element(next_.begin(), next_.end()); }

  std::uint64_t size_ = 0;
  std::uint64_t chunks_ = 0;
  std::vector<std::uint64_t> next_;  // by stream
};

// One send or receive. `done` and `complete` are read by any thread; the rest belongs to the
// engine.
struct Message {
  bool is_send = false;
  int peer = 0;
  Lane lane = Lane::collective;
  std::byte* memory = nullptr;  // of a send it is only read
  std::size_t size = 0;
  std::uint64_t number = 0;
  Stripes stripes;  // once the link is open
  std::atomic<std::size_t> done = 0;
  std::atomic<bool> complete = false;  // tells done apart from not begun where size is 0

  void advance(int stream) {
    stripes.advance(stream);
    done.store(stripes.prefix(), std::memory_order_release);
    if (stripes.complete()) complete.store(true, std::memory_order_release);
  }
};

}  // namespace cohort::transport::tcp
