#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cohort::ps {

// When gradients become an update, and what a worker may assume of the others. A value.
struct Policy {
  // sync:  step t's update of a slice is made once, from the gradients of `aggregate` workers,
  //        averaged over those; a later one of that step is dropped and counted.
  // async: every worker's gradient is an update of its own, as it comes.
  // bounded: async, but a worker gets the values for step t only when every worker that is still
  //        expected has finished step t - staleness.
  enum class Mode : std::uint8_t { sync, async, bounded };
  // What to do with a gradient that is not finite. refuse: it fails its worker, by name. drop: it
  // is left out and counted. apply: as if nothing were.
  enum class NotFinite : std::uint8_t { refuse, drop, apply };

  Mode mode = Mode::sync;
  int aggregate = 0;  // sync: workers whose gradients an update needs; 0, or more: all of them
  std::int64_t staleness = 0;
  NotFinite not_finite = NotFinite::refuse;

  bool operator==(const Policy&) const = default;
};

// What of a server's state outlives what. none: nothing. process: its process (memory that the
// launcher holds). replica: its host (another server has a copy). disk: every host.
enum class Durability : std::uint8_t { none, process, replica, disk };

std::string_view to_string(Policy::Mode mode);
std::string_view to_string(Policy::NotFinite rule);
std::string_view to_string(Durability durability);
// Throw InvalidInput that lists the words.
Policy::Mode parse_mode(std::string_view text);
Policy::NotFinite parse_not_finite(std::string_view text);
Durability parse_durability(std::string_view text);

}  // namespace cohort::ps
