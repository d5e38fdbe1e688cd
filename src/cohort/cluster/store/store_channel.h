#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/net/silence_watch.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/store/store_protocol.h"

namespace cohort::cluster {

// Requests and responses of a store client over one authenticated socket. Internal to StoreClient
// and StoreWatch.
//
// Threads: thread-safe. Among the threads that wait, one at a time is the reader: it waits on the
// socket, hands every response to whom it belongs, and passes the part on when its own has come.
// Silence: a reader that has heard nothing for half of `silence` sends a request that the store
// answers at once, whatever else it waits for. Where nothing comes for all of it, the log says so,
// once, and again when the store answers.
// Failure: PeerError once the connection is lost, for every call under way and after.
class StoreChannel {
 public:
  StoreChannel(UniqueFd fd, const SessionKeys& keys, std::string store,
               std::chrono::milliseconds silence);

  // Sends the request (its id is filled in) and waits for the response. TimeoutError when none
  // came.
  StoreResponse call(StoreRequest request, Deadline deadline);

  // Sends the request; its response is thrown away.
  void post(StoreRequest request, Deadline deadline);

  // As call(), for a watch: the events that follow are kept for next_event(). Returns its id.
  std::uint64_t open_watch(StoreRequest request, Deadline deadline);
  std::optional<StoreResponse> next_event(std::uint64_t watch, Deadline deadline);
  void close_watch(std::uint64_t watch) noexcept;

  void close();
  const std::string& store() const { return store_; }

 private:
  struct Watch {
    std::deque<StoreResponse> events;
    std::size_t bytes = 0;
    bool overflowed = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::uint64_t send(StoreRequest& request, Deadline deadline, bool is_watch);
  std::uint64_t send_locked(StoreRequest& request, Deadline deadline, bool is_watch);
  // Until `done` holds or the deadline passes (false). Throws when the connection is lost.
  template <typename Done>
  bool wait(Lock& lock, Deadline deadline, Done done);
  // The reader's, before it waits. True: the lock was released meanwhile.
  bool look_for_silence(Lock& lock);
  void ping() noexcept;
  void heard();
  TimeoutError no_answer() const;
  void read_and_dispatch(Lock& lock, Deadline deadline);
  void dispatch(StoreResponse response);
  void lose(const std::string& reason);
  [[noreturn]] void throw_lost() const;

  const UniqueFd fd_;
  const std::string store_;  // its address, for errors

  std::mutex send_mutex_;  // guards encoder_ and the order of bytes on the wire
  FrameEncoder encoder_;

  std::mutex mutex_;  // guards what follows; taken after send_mutex_
  std::condition_variable changed_;
  FrameDecoder decoder_;  // the reader's
  bool has_reader_ = false;
  const std::chrono::milliseconds silence_limit_;
  SilenceWatch silence_;
  Deadline::Clock::time_point heard_at_;
  bool pinged_ = false;              // since heard_at_
  bool told_silent_ = false;         // the log was told of the silence since heard_at_
  std::optional<std::string> lost_;  // why
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::optional<StoreResponse>> calls_;
  std::map<std::uint64_t, Watch> watches_;
};

}  // namespace cohort::cluster
