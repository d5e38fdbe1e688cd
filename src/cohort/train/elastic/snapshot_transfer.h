#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/train/elastic/snapshot.h"

// A TrainingSnapshot on its way from one member to others, beside the collectives of their group:
// first the values, then the tensors, then a CRC-32C of each.
//
// Threads: each object has one of its own; its methods from one thread. Ownership: `group` must
// outlive it. Failure: what the group's send and recv throw; abort the group to make an object that
// is under way end. A tensor whose checksum differs is a PeerError that names it.
namespace cohort::elastic {

// The member that gives. The tensors' memory must not change before wait() has returned.
class SnapshotSender {
 public:
  SnapshotSender(collective::Group& group, std::vector<int> receivers, TrainingSnapshot snapshot,
                 collective::CallOptions options = {});
  SnapshotSender(const SnapshotSender&) = delete;
  SnapshotSender& operator=(const SnapshotSender&) = delete;

  void wait();  // until everything is sent; may be called again

 private:
  std::exception_ptr error_;
  std::jthread thread_;
};

// A member that takes.
class SnapshotReceiver {
 public:
  // Returns when the values are there; the tensors come meanwhile. `on_begun` is called on this
  // object's thread before the first of them.
  SnapshotReceiver(collective::Group& group, int sender, collective::CallOptions options = {},
                   std::function<void()> on_begun = {});
  SnapshotReceiver(const SnapshotReceiver&) = delete;
  SnapshotReceiver& operator=(const SnapshotReceiver&) = delete;

  const nlohmann::json& values() const { return values_; }
  train::TensorMap take();  // waits for all of them

 private:
  void run(collective::Group& group, int sender, const collective::CallOptions& options);

  nlohmann::json values_;
  train::TensorMap tensors_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace cohort::elastic
