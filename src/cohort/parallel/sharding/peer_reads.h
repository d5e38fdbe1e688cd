#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/collective/work.h"

namespace cohort::parallel {

// What ranks of a group keep for each other, to be read by any rank when it needs it: no
// call of the owner's is needed, its thread of this class answers. A read sees the owner's items as
// of the reader's own version: it waits until the owner has published as often as the reader.
// Between a publish() and the change before the next one an owner's items must stay as they are;
// it may change them once every rank has finished its reads, which some collective between must
// have made certain (in training: the sum of gradients, to which every reader adds after its reads).
//
// One request and one reply a read, on two sub-groups of their own, so beside all collectives.
//
// Threads: reads and publish() from the rank's thread; `answer` is called on other threads.
// Ownership: `group` must outlive it. Construction is collective. The destructor takes the
// sub-groups down: reads of other ranks that are under way then fail.
// Failure: what the group throws; what `answer` throws, the reader gets as a PeerError.
class PeerReads {
 public:
  struct Item {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keep;  // what the bytes belong to
  };
  using Answer = std::function<Item(std::int64_t kind, std::int64_t item)>;

  // Among these ranks of the group, this one too; a rank below is a place in this list.
  PeerReads(collective::Group& group, std::span<const int> ranks, Answer answer);
  ~PeerReads();
  PeerReads(const PeerReads&) = delete;
  PeerReads& operator=(const PeerReads&) = delete;

  // This rank's items are those of the next version.
  void publish();

  // Fills `into`, which must be of the item's size. `rank` is another one.
  void read(int rank, std::int64_t kind, std::int64_t item, std::span<std::byte> into,
            Deadline deadline);
  std::string read_text(int rank, std::int64_t kind, std::int64_t item, Deadline deadline);
  // read() without waiting; several may be under way. `into` must stay until the Work is done.
  collective::Work begin_read(int rank, std::int64_t kind, std::int64_t item,
                              std::span<std::byte> into, Deadline deadline);

 private:
  struct Request {
    std::int64_t kind = 0, item = 0, version = 0;
    std::int64_t bytes = 0;  // that are expected; -1: the reply says how many
  };
  void ask(int rank, const Request& request, Deadline deadline);
  void serve(int peer);
  bool wait_for(std::int64_t version);

  Answer answer_;
  std::unique_ptr<collective::Group> requests_, replies_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t version_ = 0;
  bool closing_ = false;
  std::vector<std::jthread> servers_;  // one for each other rank; last: they use the others
};

}  // namespace cohort::parallel
