#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace cohort::ps {

// How far the values had moved on between a worker's reading them and its gradient's update: exact
// up to 16, then in powers of two. A value.
class StalenessHistogram {
 public:
  static constexpr int kExact = 17;   // 0..16
  static constexpr int kPowers = 59;  // 17..32, 33..64, ...

  void add(std::uint64_t staleness);
  std::uint64_t exact(int staleness) const { return exact_[static_cast<std::size_t>(staleness)]; }
  std::uint64_t power(int bin) const { return powers_[static_cast<std::size_t>(bin)]; }
  std::uint64_t largest() const { return largest_; }

 private:
  std::array<std::uint64_t, kExact> exact_{};
  std::array<std::uint64_t, kPowers> powers_{};
  std::uint64_t largest_ = 0;
};

// What a server has done since its process began. A value.
struct ServerStats {
  std::uint64_t pushes = 0;      // contributions that came, of slices and tables
  std::uint64_t applied = 0;     // of them in an update
  std::uint64_t duplicates = 0;  // came again
  std::uint64_t dropped_late = 0;
  std::uint64_t not_finite = 0;  // refused or dropped
  std::uint64_t updates = 0;
  std::uint64_t bytes_in = 0;   // of gradients and keys, wherever they lay
  std::uint64_t bytes_out = 0;  // of values over sockets
  double update_seconds = 0;
  StalenessHistogram staleness;

  // docs/formats.md. `connected`: workers now.
  std::string to_json(int server, int connected, std::uint64_t state_bytes) const;
};

}  // namespace cohort::ps
