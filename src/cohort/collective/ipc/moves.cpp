// The calls that only move bytes.
#include <algorithm>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/collective/ipc/address_of.h"
#include "cohort/collective/ipc/ipc_group.h"

namespace cohort::collective::ipc {

namespace {

// How many parts of `part` bytes there are; the last may be short.
std::size_t parts_of(std::size_t bytes, std::size_t part) { return (bytes + part - 1) / part; }

std::size_t part_length(std::size_t bytes, std::size_t part, std::size_t index) {
  const std::size_t from = std::min(bytes, part * index);
  return std::min(part, bytes - from);
}

// Where each rank's elements begin, in bytes; one number more than ranks.
std::vector<std::size_t> starts_of(std::span<const std::size_t> counts, std::size_t element) {
  std::vector<std::size_t> starts(1, 0);
  for (const std::size_t count : counts) starts.push_back(starts.back() + count * element);
  return starts;
}

}  // namespace

void IpcGroup::broadcast(void* data, std::size_t count, DataType dtype, int root,
                         DeviceStream stream) {
  const Call call{.kind = CallKind::broadcast,
                  .dtype = dtype,
                  .root = root,
                  .count = count,
                  .out = data,
                  .send_counts = {},
                  .receive_counts = {}};
  run(call, stream, [&] {
    if (count == 0 || size() == 1) return;
    const std::size_t bytes = count * size_of(dtype);
    const std::size_t part = endpoint_->slot_bytes();
    Rounds rounds(*endpoint_, stream);
    rounds.begin();
    for (std::size_t k = 0; k < parts_of(bytes, part); ++k) {
      const Address place = address_of(data) + k * part;
      const std::size_t length = part_length(bytes, part, k);
      if (rank() == root) copy(rounds.own_slot(), place, length, stream);
      rounds.meet([&](int peer) { return rank() == root || peer == root; });
      if (rank() != root) copy(place, rounds.slot_of(root), length, stream);
    }
    rounds.end();
  });
}

void IpcGroup::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                            DataType dtype, DeviceStream stream) {
  const bool fits = counts.size() == static_cast<std::size_t>(size());
  const std::size_t element = size_of(dtype);
  const std::vector<std::size_t> starts = starts_of(counts, element);
  const auto self = static_cast<std::size_t>(rank());
  if (in == nullptr && out != nullptr && fits) in = static_cast<std::byte*>(out) + starts[self];
  const Call call{.kind = CallKind::all_gather_v,
                  .dtype = dtype,
                  .count = fits ? counts[self] : 0,
                  .in = in,
                  .out = out,
                  .send_counts = {},
                  .receive_counts = counts};
  run(call, stream, [&] {
    if (starts.back() == 0) return;
    const auto bytes_of = [&](int peer) {
      return counts[static_cast<std::size_t>(peer)] * element;
    };
    const auto place_of = [&](int peer) {
      return address_of(out) + starts[static_cast<std::size_t>(peer)];
    };
    copy(place_of(rank()), address_of(in), bytes_of(rank()), stream);
    if (size() == 1) return;
    const std::size_t part = endpoint_->slot_bytes();
    const std::size_t longest = *std::max_element(counts.begin(), counts.end()) * element;
    Rounds rounds(*endpoint_, stream);
    rounds.begin();
    for (std::size_t k = 0; k < parts_of(longest, part); ++k) {
      copy(rounds.own_slot(), address_of(in) + k * part, part_length(bytes_of(rank()), part, k),
           stream);
      rounds.meet();
      for (const int peer : peers())
        copy(place_of(peer) + k * part, rounds.slot_of(peer), part_length(bytes_of(peer), part, k),
             stream);
    }
    rounds.end();
  });
}

void IpcGroup::all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                            std::span<const std::size_t> receive_counts, DataType dtype,
                            DeviceStream stream) {
  const Call call{.kind = CallKind::all_to_all_v,
                  .dtype = dtype,
                  .in = in,
                  .out = out,
                  .send_counts = send_counts,
                  .receive_counts = receive_counts};
  const auto self = static_cast<std::size_t>(rank());
  const bool moves =
      starts_of(send_counts, 1).back() > 0 && starts_of(receive_counts, 1).back() > 0;
  if (in == out && moves && !std::ranges::equal(send_counts, receive_counts))
    throw InvalidInput("an all_to_all_v on GPUs in place has different counts to send and receive",
                       {.advice = "Give it two buffers."});
  run(call, stream, [&] {
    if (send_counts[self] != receive_counts[self])
      throw InvalidInput(fmt::format("rank {} sends {} elements to itself, but expects {}", rank(),
                                     send_counts[self], receive_counts[self]));
    const std::size_t element = size_of(dtype);
    const std::vector<std::size_t> sends = starts_of(send_counts, element);
    const std::vector<std::size_t> receives = starts_of(receive_counts, element);
    copy(address_of(out) + receives[self], address_of(in) + sends[self],
         send_counts[self] * element, stream);
    if (size() == 1) return;
    // A lane of the slot for each peer.
    const std::size_t part = endpoint_->lane_bytes();
    const auto send_bytes = [&](int peer) {
      return send_counts[static_cast<std::size_t>(peer)] * element;
    };
    const auto receive_bytes = [&](int peer) {
      return receive_counts[static_cast<std::size_t>(peer)] * element;
    };
    // Both ranks of a pair know it.
    const auto rounds_with = [&](int peer) {
      return std::max<std::size_t>(1,
                                   parts_of(std::max(send_bytes(peer), receive_bytes(peer)), part));
    };
    std::size_t most = 1;
    for (const int peer : peers()) most = std::max(most, rounds_with(peer));
    Rounds rounds(*endpoint_, stream);
    rounds.begin();
    for (std::size_t k = 0; k < most; ++k) {
      for (const int peer : peers())
        copy(rounds.own_slot() + static_cast<std::size_t>(peer) * part,
             address_of(in) + sends[static_cast<std::size_t>(peer)] + k * part,
             part_length(send_bytes(peer), part, k), stream);
      rounds.meet([&](int peer) { return k < rounds_with(peer); });
      for (const int peer : peers())
        copy(address_of(out) + receives[static_cast<std::size_t>(peer)] + k * part,
             rounds.slot_of(peer) + self * part, part_length(receive_bytes(peer), part, k), stream);
    }
    rounds.end();
  });
}

}  // namespace cohort::collective::ipc
