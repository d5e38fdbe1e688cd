#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/collective/nccl/nccl_library.h"

namespace cohort::collective::nccl::testing {

// When the calls on it are done.
struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  int pending = 0;
  bool aborted = false;

  void add();
  void done(bool completed);
  bool synchronize();
};

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

struct Task {
  Kind kind = Kind::send;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  Type type = Type::u8;
  Op op = Op::sum;
  int peer = 0;  // root, or the other end
};

// The calls of one group on one communicator.
struct Batch {
  std::vector<Task> tasks;
  Stream* stream = nullptr;
};

struct Message {
  Task task;
  std::shared_ptr<bool> taken = std::make_shared<bool>(false);
};

struct Slot {  // of one collective
  std::vector<Task> tasks;
  int arrived = 0;
  int left = 0;
  bool done = false;
};

// The communicators of one unique id. All but `size` under the lock, also every access to memory of
// ranks: a rank that aborts may free it right after.
struct World {
  explicit World(int ranks) : size(ranks) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int connected = 0;
  bool lost_one = false;  // some rank has aborted: what needs all does not end any more
  std::map<std::uint64_t, Slot> slots;
  std::map<std::pair<int, int>, std::deque<Message>> messages;  // from, to
};

struct Member {
  Member(std::shared_ptr<World> joined, int number);
  ~Member();              // stops
  void stop();            // ends what is under way
  void put(Batch batch);  // under the world's lock
  // As a launch on a stream that is full: until stop(). wait_for_launches() returns when none waits.
  void block_launch();
  void wait_for_launches();

  const std::shared_ptr<World> world;
  const int rank;
  // Under the world's lock.
  bool init_done = false;
  int polls = 0;  // how often it is still said to be in progress
  Result failed = Result::success;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work();
  bool run(Lock& lock, const Batch& batch);
  bool collective(Lock& lock, const Task& task);
  bool wait(Lock& lock, const bool& done);  // false: aborted

  bool aborted_ = false;
  int blocked_ = 0;  // launches
  std::uint64_t sequence_ = 0;
  std::deque<Batch> queue_;
  std::thread worker_;  // last: it uses the others
};

}  // namespace cohort::collective::nccl::testing
