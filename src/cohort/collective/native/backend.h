#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cohort/collective/backend/backend.h"
#include "cohort/collective/native/local_channel.h"
#include "cohort/collective/native/local_messenger.h"
#include "cohort/collective/native/placement.h"
#include "cohort/collective/native/tuning.h"
#include "cohort/transport/rendezvous.h"

namespace cohort::collective {

// Cohort's own engine: shared memory among the ranks of a host, a messenger between hosts.
class NativeBackend : public Backend {
 public:
  using Connect = std::function<std::unique_ptr<transport::Messenger>(
      int rank, int size, const std::string& id,
      const std::shared_ptr<transport::Rendezvous>& rendezvous)>;

  struct Parts {
    std::string id;
    int rank = 0;
    Placement placement;
    std::shared_ptr<transport::Arena> arena;  // of the ranks on this host
    std::vector<int> arena_ranks;             // of those, ascending by rank
    std::shared_ptr<transport::Rendezvous> rendezvous;
    Connect connect;          // used with more than one host
    TuningTable tuning = {};  // the same on all ranks
    Check check = {};         // ends the wait for the others
  };

  // Collective over the group: the leaders make the channels, the others find them.
  NativeBackend(Parts parts, Deadline deadline);
  ~NativeBackend() override;

  int rank() const override { return parts_.rank; }
  int size() const override { return static_cast<int>(parts_.placement.peers.size()); }
  std::string name() const override;
  void execute(const Call& call, Deadline deadline) override;
  std::unique_ptr<transport::Transfer> send(int peer, std::span<const std::byte> bytes) override;
  std::unique_ptr<transport::Transfer> receive(int peer, std::span<std::byte> bytes) override;
  std::byte* allocate(std::size_t bytes) override { return parts_.arena->allocate(bytes); }
  void free(std::byte* memory) override { parts_.arena->free(memory); }
  std::unique_ptr<Backend> subgroup(std::span<const int> ranks, const std::string& id,
                                    Deadline deadline) override;
  std::optional<Failure> failure() override { return channel_->failure(); }
  void abort(const std::string& reason) noexcept override;
  void leave() noexcept override;

 private:
  int member_of(int rank) const;  // index in this host's domain, or -1
  void watch_for_failure();       // the leader's sentinel, with several hosts

  Parts parts_;
  std::vector<int> local_ranks_;
  std::unique_ptr<LocalChannel> channel_;
  std::unique_ptr<LocalMessenger> local_;
  std::unique_ptr<transport::Messenger> remote_;
  std::atomic<bool> closing_ = false;
  std::thread sentinel_;
};

}  // namespace cohort::collective
