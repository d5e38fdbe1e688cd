#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/process/checked_wait.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/collective/backend/call.h"
#include "cohort/collective/backend/failure.h"
#include "cohort/collective/backend/peer.h"
#include "cohort/collective/native/staging_choice.h"
#include "cohort/transport/domain.h"

namespace cohort::collective {

// What a member tells the others about a call before any of them touches data.
struct CallRecord {
  CallKind kind;
  DataType dtype;
  ReduceOp op;
  std::int32_t root;
  std::uint64_t count;
  double pre_scale;
  double post_scale;
  std::uint64_t call_sequence;  // of the user's call, for errors
  std::uint64_t counts_hash;    // all_gather_v: of all ranks' counts
  std::uint64_t in_bytes;       // that others may read, at `in`
  std::uint64_t out_bytes;      // that others may write, at `out`
  transport::SharedRef in;
  transport::SharedRef out;
};

// The shared memory through which the members of a domain run their calls: for each member two
// slots with the description and the inline data of its latest calls (even and odd), marks that
// count the windows that it has staged, reduced and consumed, and a staging buffer.
//
// Two slots are enough: a member writes call s + 2 only after it has read every member's call
// s + 1, which each wrote after reading call s.
//
// Threads: one thread runs calls (post, await, slots); fail(), broken() and check() are
// thread-safe. Failure: await() throws what broke the group, or breaks it at the deadline.
class LocalChannel {
 public:
  static constexpr std::size_t kInlineBytes = 4096;
  static constexpr int kStagingBuffers = 6;
  static constexpr std::size_t kStagingBytes = 256 << 10;  // of each buffer

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence;
    CallRecord record;
    alignas(64) std::byte inline_data[kInlineBytes];
  };

  // Shared bytes that a domain needs for a channel, and after it `extra` bytes at extra().
  static std::size_t shared_bytes(int members, std::size_t extra);

  // `peers[i]` is member i, `tasks[r]` the task of the group's rank r, which may be another host's.
  // Collective over the domain: waits until all members have staging ready; runs `check` meanwhile.
  LocalChannel(std::shared_ptr<transport::Domain> domain, std::vector<Peer> peers,
               std::vector<std::string> tasks, Deadline deadline, const Check& check);
  ~LocalChannel();

  transport::Domain& domain() const { return *domain_; }
  int index() const { return domain_->index(); }
  int size() const { return domain_->size(); }
  const Peer& peer(int member) const { return peers_[member]; }
  std::byte* extra() const;
  // True when peers can reach any memory of this process (threads).
  bool reaches_everything() const { return reaches_everything_; }

  // --- one call ---
  // Starts a call, which errors name from now on; returns its number on this channel.
  std::uint64_t begin(const Call& call);
  Slot& slot(int member, std::uint64_t sequence) const;
  std::uint64_t* counts(int member, std::uint64_t sequence) const;  // 2 * size() numbers
  void publish(std::uint64_t sequence);                             // own slot is complete
  void await_all_published(std::uint64_t sequence, Deadline deadline);

  // --- windows: numbered through the life of the channel, so that the marks of members never fall
  std::uint64_t first_window() const { return windows_; }
  void advance(std::uint64_t windows) { windows_ += windows; }
  void finish(std::uint64_t windows);  // this member has done with so many
  void await_all_finished(std::uint64_t windows, Deadline deadline);
  std::byte* staging(int member, std::uint64_t window) const;
  StagingChoice& staging_choice() { return staging_choice_; }

  // --- failure ---
  bool broken() const;
  // Throws when broken; `describe()` says what was called, where the failure does not.
  template <typename Describe>
  void check(Describe&& describe) const {
    auto reason = failure();
    if (!reason) return;
    if (reason->during.empty()) reason->during = describe();
    raise(*reason);
  }
  // Throws it, with the task of its culprit.
  [[noreturn]] void raise(const Failure& failure) const;
  // Breaks the group for all members; the first failure counts. Returns the one that does.
  Failure fail(Failure failure);
  std::optional<Failure> failure() const;
  // Breaks the group because this rank was interrupted.
  void break_off();
  void leave() noexcept;
  bool has_left(int member) const;
  // Waits for `ready`, as Domain::wait; throws what broke the group, or Interrupted and breaks it. `missing()` is the member to
  // blame when the deadline passes; `during` empty: the call under way.
  template <typename Ready, typename Missing>
  void wait(Ready&& ready, Missing&& missing, Deadline deadline, const std::string& during) {
    bool fine = false;
    const auto news = [&] {
      fine = ready();
      return fine || broken() || has_left(missing());
    };
    try {
      domain_->wait(news, deadline);
    } catch (const Interrupted&) {
      break_off();
      throw;
    }
    if (!fine && !ready()) give_up(missing(), during);
  }

 private:
  struct Header;
  struct MemberBlock;
  Header& header() const;
  MemberBlock& block(int member) const;
  std::atomic<std::uint64_t>& finished_by(int member) const;
  int dead_member() const;  // or -1
  [[noreturn]] void give_up(int member, const std::string& during);

  std::shared_ptr<transport::Domain> domain_;
  std::vector<Peer> peers_;
  std::vector<std::string> tasks_;  // by rank
  bool reaches_everything_;
  std::byte* own_staging_ = nullptr;
  std::vector<std::byte*> staging_;  // by member, in this address space
  StagingChoice staging_choice_;
  std::uint64_t calls_ = 0;
  std::uint64_t windows_ = 0;
  Call current_;  // what errors name; only its description is used
};

}  // namespace cohort::collective
