#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/collective/backend.h"
#include "cohort/collective/native/failure.h"

namespace cohort::collective::mpi {

// A Group's engine over three communicators of the same ranks: one for collectives, one for
// messages between two ranks, one on which a rank tells the others that the group is broken.
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
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override;

  // Polls `step` until it is true. Throws when the deadline passes, a peer broke the group, or
  // `peer` (or anybody, for kAll) left it.
  static constexpr int kAll = -1;
  static constexpr int kNobody = -2;
  template <typename Step>
  void poll(Step&& step, Deadline deadline, int peer, const std::string& during);
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
  void hear();  // notices that came
  void tell(const Failure& failure) noexcept;
  void complete(MPI_Request request, Deadline deadline, const std::string& during);

  void agree(const Call& call, Deadline deadline);
  void move(const Call& call, Deadline deadline);
  void reduce(const Call& call, const std::byte* in, std::byte* out, int root, Deadline deadline);

  int rank_ = 0;
  int size_ = 1;
  MPI_Comm collective_, messages_, notices_;
  std::mutex posted_mutex_;                                    // guards the requests of messages
  std::vector<std::deque<std::shared_ptr<Posted>>> receives_;  // by peer, not matched yet
  mutable std::mutex mutex_;                                   // guards the rest
  std::optional<Failure> failure_;
  std::uint64_t calls_ = 0;  // collectives begun
  // Whoever left after as many calls as this rank has begun still did its part in them.
  struct Departure {
    std::string text;
    std::uint64_t calls = 0;
  };
  std::vector<std::optional<Departure>> left_;  // by rank
  bool said_goodbye_ = false;
  struct Notice {
    std::vector<char> bytes;
    std::vector<MPI_Request> requests;
  };
  std::vector<std::unique_ptr<Notice>> told_;  // until MPI has sent them
};

}  // namespace cohort::collective::mpi
