#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/rate_limited_log.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/tls_channel.h"
#include "cohort/base/unique_fd.h"
#include "cohort/transport/rendezvous.h"
#include "cohort/transport/tcp/link.h"
#include "cohort/transport/tcp/options.h"

namespace cohort::transport::tcp {

// Why a messenger is broken; the first reason counts.
struct Breakage {
  enum class Kind { peer, timeout, protocol, auth };
  Kind kind = Kind::peer;
  int culprit = -1;
  std::string text;
  std::string advice;
  std::optional<AbortNotice> notice = {};  // this rank's or a peer's, when that was the reason

  [[noreturn]] void raise() const;
};

constexpr std::uint64_t kListenerId = 0;  // what epoll reports

// All of a messenger but its interface: links, connections being made, and the one wait for all of
// them. Among the threads that wait, one polls for all; the others sleep until it hands on.
// Threads: thread-safe. Failure: as Messenger promises.
class Engine {
 public:
  Engine(TcpOptions options, std::shared_ptr<Rendezvous> rendezvous, Deadline deadline);
  ~Engine();

  MessagePointer post(bool is_send, int peer, Lane lane, std::byte* memory, std::size_t size);
  void wait(const Message& message, std::size_t bytes, Deadline deadline);
  void drop(const Message& message) noexcept;  // its transfer is destroyed
  void abort(const AbortNotice& notice) noexcept;
  void close() noexcept;  // leaves the group
  std::optional<AbortNotice> aborted() const;
  void beat() noexcept;  // tells every connected peer that this rank is there

 private:
  using Lock = std::unique_lock<std::mutex>;
  using TimePoint = Deadline::Clock::time_point;
  // How a link comes about, and what to make of its end. The rank that dials is the higher one.
  struct Dial {
    std::vector<SocketAddress> addresses;  // empty until it is dialled
    std::size_t next_address = 0;
    std::vector<std::unique_ptr<Stream>> streams;  // until all are proven; nothing: dropped
    int tries = 0;                                 // how often one of them was dropped
    TimePoint next_try = {};                       // to dial it again
    // Of the last address, or of the open link: final, unless the rendezvous knows why.
    std::optional<Breakage> failure;
    TimePoint next_look;  // into the rendezvous
    // The lower rank's: a connection that says nothing. It ends when the peer does.
    UniqueFd probe;
  };
  struct Entry {
    std::unique_ptr<Link> link;
    Dial dial;
  };
  using Key = std::pair<int, Lane>;

  HandshakeOptions handshake_options(const Purpose& purpose) const;
  std::unique_ptr<Channel> make_channel(UniqueFd socket, bool server) const;
  Entry& entry(int peer, Lane lane);

  // In connect.cpp.
  void publish(Deadline deadline);
  void publish_end(const AbortNotice& notice);
  struct Address {
    std::vector<SocketAddress> sockets;
    std::string name;
    std::optional<AbortNotice> end;  // it is there no more
  };
  Address look_up(int peer, bool only_end, Deadline deadline);
  TimePoint open_links(Lock& lock, Deadline deadline);  // when to call it again at the latest
  bool refresh(Lock& lock, Entry& entry, Deadline deadline);
  void go_on(Entry& entry);
  void dial(Entry& entry);
  void dial_stream(Entry& entry, int index);
  static bool may_try_again(Dial& dial);  // after a pause
  bool set_up_stream(Dial& dial, std::unique_ptr<Stream>& stream);
  void dial_failed(Entry& entry, const Error& error, bool connecting);
  void set_up_dialled(Entry& entry);
  void probe(Entry& entry);
  void hang_up(Dial& dial);
  void watch(Stream& stream);
  void unwatch(const Stream& stream);

  // In accept.cpp.
  void accept_all();
  void make_room(int newest);
  void pause_accepting(const std::string& reason);
  void resume_accepting();
  void watch_listener(std::uint32_t events);
  void set_up_incoming(TimePoint now);
  void welcome(std::unique_ptr<Stream>& stream);  // taken, unless it throws
  void say_goodbye(const Goodbye& goodbye);

  void run_round(Lock& lock, Deadline deadline);
  bool pump(Entry& entry);
  void poll(Lock& lock, int timeout_ms);
  void check(const Message& message);
  // Both without the lock.
  void ask_interrupt();
  void tell_interrupt() noexcept;
  std::string lateness(const Message& message) const;

  void fail(Breakage breakage);
  void fail_with(const Link& link, const Error& error);
  static Breakage breakage_of(const Link& link, const Error& error);
  void wake() noexcept;

  TcpOptions options_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<TlsContext> tls_;
  UniqueFd listener_, epoll_, wakeup_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool polling_ = false;
  std::map<Key, Entry> entries_;
  std::list<std::unique_ptr<Stream>> incoming_;         // accepted, not proven yet
  std::unordered_map<std::uint64_t, Stream*> watched_;  // by the id that epoll reports
  std::uint64_t next_watch_ = 2;
  unsigned rounds_ = 0;
  std::size_t max_unproven_ = 0;
  TimePoint next_sweep_ = {};                  // over incoming_
  TimePoint accept_again_ = TimePoint::max();  // while accepting pauses
  RateLimitedLog refusals_, shortages_;
  std::string last_refusal_;
  std::optional<Breakage> broken_;
  bool said_goodbye_ = false;
};

}  // namespace cohort::transport::tcp
