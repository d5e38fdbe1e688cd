#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cohort/capi/negotiation/signature.h"

namespace cohort::capi {

// What the ranks carry out next: a request of which every rank has brought its part, or one on
// which they do not agree.
struct Unit {
  Kind kind = Kind::all_reduce;
  std::string name;
  std::vector<SignatureRef> ranks;  // by rank; null: it has joined, and brings zeros
  std::string mismatch;             // empty: carry it out; else every rank's request fails with it
  int last_joined = -1;             // join: its value

  const Signature& any() const;  // one that is not null
};

// Decides which requests are ready, and in which order. Every rank runs one of its own on the same
// input, the news of all ranks round by round, and so comes to the same answers without a
// coordinator.
//
// News of a rank: the requests that it has submitted since its last round, each a whole signature,
// or two bytes where it is the same as the last time that a request of that name was carried out
// (up to `capacity` names are remembered; the one unused for longest goes first).
//
// Join: a rank that has joined takes part in allreduces and barriers with nothing of its own; other
// kinds fail while there is such a rank. When all have joined, the joins are carried out, and
// no rank has joined any more.
//
// Pure: no threads, clocks or sockets. Thread-compatible. A round with news that no rank can have
// sent throws ProtocolError.
class Negotiator {
 public:
  static constexpr std::size_t kCapacity = 1024;

  Negotiator(int rank, int size, std::size_t capacity = kCapacity);

  // This rank's news, for the next round. `fresh` must not have been submitted and not ready.
  std::string news(std::span<const SignatureRef> fresh) const;
  // One round: news[r] is rank r's. The units that are ready now, in order.
  std::vector<Unit> round(std::span<const std::string_view> news);

  // Some rank waits for a request that this rank has not submitted.
  bool is_behind() const;
  // The ranks that have not submitted it; empty for one that is unknown.
  std::vector<int> missing(Kind kind, const std::string& name) const;

 private:
  struct Pending {
    Kind kind = Kind::all_reduce;
    std::string name;
    std::vector<SignatureRef> ranks;
    std::size_t count = 0;
    std::uint64_t arrival = 0;
  };
  struct Remembered {
    std::string key;
    std::vector<SignatureRef> ranks;
    std::uint64_t used = 0;
  };

  void check(const Signature& signature, std::size_t rank) const;
  std::vector<SignatureRef> read(std::size_t rank, std::string_view news) const;
  void add(std::size_t rank, SignatureRef signature, std::vector<Unit>& ready);
  bool is_complete(const Pending& pending) const;
  Unit finish(const std::string& key, Pending pending);
  void remember(const std::string& key, const std::vector<SignatureRef>& ranks);
  void add_those_complete(std::vector<Unit>& ready);

  std::size_t rank_, size_, capacity_;
  std::unordered_map<std::string, Pending> pending_;
  std::uint64_t arrivals_ = 0;
  std::size_t own_ = 0;  // of pending_, with a part of this rank

  std::vector<bool> joined_;
  std::size_t joined_count_ = 0;
  int last_joined_ = -1;

  std::vector<Remembered> memory_;  // by number
  std::unordered_map<std::string, std::uint16_t> numbers_;
  std::uint64_t uses_ = 0;
};

}  // namespace cohort::capi
