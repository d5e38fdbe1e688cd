#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cohort/collective/backend/backend.h"
#include "cohort/collective/backend/failure.h"

namespace cohort::collective::mpi {

// A Group's engine over three communicators of the same ranks: one for collectives, one for
// messages between two ranks, one on which ranks tell each other that the group is broken, and ask
// each other how far they are.
// Threads and failure: as Backend.
class MpiBackend : public Backend {
 public:
  // Takes over `comm`.
  explicit MpiBackend(MPI_Comm comm);
  ~MpiBackend() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "mpi"; }
  void execute(const Call& call, Deadline deadline) override;
  std::unique_ptr<transport::Transfer> send(int peer, std::span<const std::byte> bytes) override;
  std::unique_ptr<transport::Transfer> receive(int peer, std::span<std::byte> bytes) override;
  std::byte* allocate(std::size_t bytes) override;
  void free(std::byte* memory) override;
  std::unique_ptr<Backend> subgroup(std::span<const int> ranks, const std::string& id,
                                    Deadline deadline) override;
  std::optional<Failure> failure() override;
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override;

  // Polls `step` until it is true. Throws when the deadline passes, a peer broke the group, or
  // `peer` (or any peer, for kAll) left it. At the deadline it takes kAnswerLimit to find out who
  // is missing.
  static constexpr int kAll = -1;
  static constexpr int kNone = -2;
  template <typename Step>
  void poll(Step&& step, Deadline deadline, int peer, const std::string& during);
  template <typename Step, typename Missing>
  void poll(Step&& step, Deadline deadline, int peer, const std::string& during, Missing&& missing);
  // Breaks the group here and tells the peers; throws the first failure.
  [[noreturn]] void fail(Failure failure);

 private:
  friend class MpiTransfer;
  struct Posted;
  std::unique_ptr<transport::Transfer> post(int peer, std::byte* memory, std::size_t bytes,
                                            bool is_send);
  bool test(Posted& posted);
  void match_receives();
  void match_receives_of(int peer);
  void check(int peer, const std::string& during);
  void read_notices();  // notices that came
  void send_notice(const Failure& failure) noexcept;
  std::string name(int peer) const;  // "rank 1 on node7"

  // In presence.cpp.
  void answer_queries();               // and answer them; `mutex_` is held
  std::vector<int> find_late_peers();  // those that do not answer, or are at an earlier call
  Failure lateness(const std::vector<int>& missing, const std::string& during) const;
  void post_notice(int peer, int tag, std::string_view bytes);
  void gather_for(const std::string& id, std::span<const int> ranks, Deadline deadline);
  void complete(MPI_Request request, Deadline deadline, const std::string& during);

  void agree(const Call& call, Deadline deadline);
  void move(const Call& call, Deadline deadline);
  void reduce(const Call& call, const std::byte* in, std::byte* out, int root, Deadline deadline);

  int rank_ = 0;
  int size_ = 1;
  std::vector<std::string> hosts_;  // by rank
  MPI_Comm collective_, messages_, notices_;
  std::mutex posted_mutex_;                                    // guards the requests of messages
  std::vector<std::deque<std::shared_ptr<Posted>>> receives_;  // by peer, not matched yet
  mutable std::mutex mutex_;                                   // guards the rest
  std::optional<Failure> failure_;
  std::uint64_t calls_ = 0;  // collectives begun
  // A peer that left after as many calls as this rank has begun still did its part in them.
  struct Departure {
    std::string text;
    std::uint64_t calls = 0;
  };
  std::vector<std::optional<Departure>> left_;     // by rank
  std::map<int, std::uint64_t> answers_;           // of peers, to the last query: calls begun
  std::uint64_t query_ = 0;                        // its number
  std::map<std::string, std::set<int>> gathered_;  // who came for a sub-group, by its id
  bool departure_sent_ = false;
  struct Notice {
    std::vector<char> bytes;
    std::vector<MPI_Request> requests;
  };
  std::vector<std::unique_ptr<Notice>> notices_sent_;  // until MPI has sent them
};

template <typename Step>
void MpiBackend::poll(Step&& step, Deadline deadline, int peer, const std::string& during) {
  poll(step, deadline, peer, during,
       [&] { return peer >= 0 ? std::vector<int>{peer} : find_late_peers(); });
}

template <typename Step, typename Missing>
void MpiBackend::poll(Step&& step, Deadline deadline, int peer, const std::string& during,
                      Missing&& missing) {
  constexpr auto kLongestPause = std::chrono::microseconds(200);
  auto pause = std::chrono::microseconds(0);
  for (int i = 0;; ++i) {
    read_notices();
    if (step()) return;  // what a peer sent before it left counts
    check(peer, during);
    if (deadline.expired()) {
      const std::vector<int> late = missing();
      check(peer, during);  // a peer may have been quicker to say why
      fail(lateness(late, during));
    }
    if (i < 200) {
      std::this_thread::yield();
    } else {
      pause = std::min(kLongestPause, pause + std::chrono::microseconds(5));
      std::this_thread::sleep_for(pause);  // MPI cannot wait with a deadline
    }
  }
}

}  // namespace cohort::collective::mpi
