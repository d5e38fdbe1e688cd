#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/ps/state/slice_shape.h"

// Where everything lies in a segment's file. In this order, each part at a multiple of 64 bytes:
//
//   SegmentHeader | ShapeRecord of every slice | the spec's text
//   state words, 64 bytes a slice            (from a page's beginning)
//   slice 0: side 0, side 1; slice 1: ...    (each slice from a page's beginning)
//   arena for tables                          (from a page's beginning)
//
//   a side: updates u64, ledger u64[workers] | values | slot 0 | ...
//
// A state word is version << 1 | torn. The version that counts is in side `version & 1`; torn says
// that the other side is not whole: the next version is being written there, or was and never
// became one. So a reader of version v has been overtaken once the word is past (v + 1) << 1.
namespace cohort::ps {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t kSegmentMagic = 0x0a304745'53505243;  // "CRPSEG0\n"
constexpr std::uint32_t kSegmentLayoutVersion = 1;

// Writer: keeps the torn mark before what is written behind it. Reader: keeps what it copied before
// its second look at the word. ThreadSanitizer does not know fences (-Wtsan); it does not see these
// races either, as writer and readers have mappings of their own.
inline void fence(std::memory_order order) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wtsan"
  std::atomic_thread_fence(order);
#pragma GCC diagnostic pop
}

// Calls copy(version), which copies from the side of that version, until it was not overtaken;
// returns the version that it copied.
template <typename Copy>
std::uint64_t read_whole(const std::atomic<std::uint64_t>& word, const Copy& copy) {
  while (true) {
    const std::uint64_t version = word.load(std::memory_order_acquire) >> 1;
    copy(version);
    fence(std::memory_order_acquire);
    if (word.load(std::memory_order_relaxed) <= (version + 1) << 1) return version;
  }
}

struct SegmentHeader {
  std::uint64_t magic;  // written last
  std::uint32_t layout_version;
  std::uint32_t workers;
  std::uint64_t slices;
  std::uint64_t spec_bytes;
  std::uint64_t table_bytes;
  std::uint32_t checksum;  // CRC-32C of the fields between, the shapes and the spec
  std::uint32_t reserved;
  std::atomic<std::uint64_t> initialised;  // 0: not yet
};

struct ShapeRecord {
  std::uint32_t type;
  std::uint32_t slots;
  std::uint64_t elements;
};

struct SliceLayout {
  SliceShape shape;
  std::uint64_t first_side = 0;  // offsets in the file
  std::uint64_t side_bytes = 0;
  std::uint64_t values = 0;  // offsets in a side
  std::uint64_t slot_stride = 0;
};

// A pure value. Throws InvalidInput where sizes are beyond what a file can have.
struct SegmentLayout {
  SegmentLayout(std::span<const SliceShape> shapes, int workers, std::uint64_t spec_bytes,
                std::uint64_t table_bytes);

  std::uint64_t state_word(int slice) const {
    return states + static_cast<std::uint64_t>(slice) * 64;
  }

  int workers;
  std::uint64_t shapes;  // offset of the records
  std::uint64_t spec;
  std::uint64_t states;
  std::vector<SliceLayout> slices;
  std::uint64_t tables;  // where dense state ends
  std::uint64_t table_bytes;
};

std::uint32_t checksum_of(const SegmentHeader& header, std::span<const ShapeRecord> shapes,
                          std::string_view spec);

// The layout of a segment that another process wrote: `file` has been looked at and nothing of it
// is beyond its end. `spec` is filled.
SegmentLayout read_layout(int file, std::string& spec);

}  // namespace cohort::ps
