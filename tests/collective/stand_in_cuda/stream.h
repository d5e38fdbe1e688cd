#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// Streams of the stand-in for NVIDIA's driver: a thread each, which does one thing after the other.
namespace stand_in {

using Work = std::function<void()>;
using Launch = std::vector<Work>;  // what one call of the driver puts on a stream

// What streams have been given since a capture began, as one list in the order of the calls.
struct Capture {
  std::uint64_t id = 0;
  std::vector<Work> work;
  std::atomic<bool> invalid = false;  // a call has failed: takes no more, and gives no graph
};

// A point in a stream's work. Shared by the event, the stream and those that wait for it.
struct Point {
  std::mutex mutex;
  std::condition_variable reached;
  bool done = false;
  std::shared_ptr<Capture> capture;  // recorded in it; then never done
};

struct Event {
  std::mutex mutex;
  std::shared_ptr<Point> last;
};

// Threads: thread-safe. Lives until its work is done: `destroy` lets it end.
class Stream {
 public:
  static Stream* create(int device);
  void destroy();
  int device() const { return device_; }

  // Does it later, or writes it into the capture that is under way. Waits while the stream has as
  // many launches ahead of it as it can hold, as the driver does.
  void put(Work work) { put_all({std::move(work)}); }
  void put_all(Launch launch);
  bool idle();

  // A wait of it was ended by force: from then on it may race with streams of peers.
  std::atomic<bool> races = false;

  std::shared_ptr<Capture> capture();
  void set_capture(std::shared_ptr<Capture> capture);

 private:
  explicit Stream(int device) : device_(device) {}
  void run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Launch> launches_;
  bool busy_ = false;
  bool ends_ = false;
  std::shared_ptr<Capture> capture_;
};

// How many calls wait now for a stream that is full.
int blocked_calls();
// Waits until the streams of a device have nothing to do, as the driver does before it frees memory.
void await_idle(int device);
// Every stream that takes part in it leaves it.
void end_capture(const std::shared_ptr<Capture>& capture);

}  // namespace stand_in
