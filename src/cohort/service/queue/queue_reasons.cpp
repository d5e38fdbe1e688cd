#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cohort/service/queue/queue.h"
#include "cohort/service/queue/queue_state.h"

namespace cohort::service {
namespace {

constexpr std::array<std::string_view, Queue::kCounted> kPlaces = {
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"};
constexpr std::array<std::size_t, 3> kOrder = {2, 0, 1};  // GPUs, cores, memory: the rarest first

std::string words_of(std::size_t kind, std::int64_t amount, bool bare = false) {
  if (kind == 2) return fmt::format("{}{}", amount, bare ? "" : amount == 1 ? " GPU" : " GPUs");
  if (kind == 0)
    return fmt::format("{:g}{}", static_cast<double>(amount) / 1000,
                       bare             ? ""
                       : amount == 1000 ? " core"
                                        : " cores");
  const double gib = static_cast<double>(amount) / (1 << 30);
  return gib < 1 ? fmt::format("{:.4g} MiB", gib * 1024) : fmt::format("{:.4g} GiB", gib);
}

std::string words_of(const Amount& size) {
  std::string words;
  for (const std::size_t kind : {0, 1, 2})
    if (size[kind] > 0) words += (words.empty() ? "" : ", ") + words_of(kind, size[kind]);
  return words;
}

std::string never_fits(const QueueEntry& entry, const NodePool& pool) {
  Amount largest{};
  for (int node = 0; node < pool.nodes(); ++node)
    for (std::size_t kind = 0; kind < largest.size(); ++kind)
      largest[kind] = std::max(largest[kind], pool.size_of(node)[kind]);
  for (const std::size_t kind : kOrder)
    if (entry.size[kind] > largest[kind])
      return fmt::format("needs {}; there are {}", words_of(kind, entry.size[kind]),
                         words_of(kind, largest[kind], true));
  return fmt::format("needs {} instances of {}; {} fit when nothing else runs", entry.job.least,
                     words_of(entry.size), pool.fitting_when_empty(entry.size));
}

std::string shortage(const QueueEntry& first, const QueueState& queue) {
  std::string text = fmt::format("waits for {} instances of {}: {} fit now", first.job.least,
                                 words_of(first.size), queue.pool.fitting(first.size));
  for (const std::size_t kind : kOrder) {
    const std::int64_t needed = first.size[kind] * first.job.least;
    const std::int64_t free = std::max<std::int64_t>(queue.pool.total_free()[kind], 0);
    if (needed <= free) continue;
    const QueueEntry* holder = nullptr;
    const auto held = [&](const QueueEntry& entry) { return entry.size[kind] * entry.held(); };
    for (const auto& [id, entry] : queue.running)
      if (held(*entry) > 0 && (!holder || held(*entry) > held(*holder))) holder = entry;
    text = fmt::format("waits for {}: {} {} free", words_of(kind, needed),
                       words_of(kind, free, true), free == (kind == 0 ? 1000 : 1) ? "is" : "are");
    if (holder)
      text += fmt::format(", '{}' holds {}", holder->job.name, words_of(kind, held(*holder), true));
    break;
  }
  for (const auto& [id, entry] : queue.elastic) {
    if (entry->asked >= entry->held()) continue;
    Amount back = entry->size;
    for (auto& kind : back) kind *= entry->held() - entry->asked;
    text += fmt::format("; '{}' gives back {}", entry->job.name, words_of(back));
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> Queue::reasons(QueueTime now) const {
  std::map<std::string, std::string> reasons;
  std::size_t place = 0;
  state_->walk(now, [&](const QueueEntry& entry) {
    reasons[entry.job.id] =
        place == 0 ? shortage(entry, *state_) : fmt::format("{} in line", kPlaces[place]);
    return ++place < kPlaces.size();
  });
  for (const auto& [id, entry] : state_->impossible) reasons[id] = never_fits(*entry, state_->pool);
  return reasons;
}

}  // namespace cohort::service
