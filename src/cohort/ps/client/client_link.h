#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "cohort/ps/client/client_core.h"
#include "cohort/ps/state/segment_reader.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

// A worker's way to one server: connects by TCP, goes over to the server's Unix socket where both
// are on one host, says hello, and carries the step under way and open requests. When the
// connection is lost it connects again with growing pauses and sends again what was not answered,
// all of it made from ClientCore's state.
//
// Threads: its functions are the client's thread's, but those that say "locked", which anybody may
// call who holds the core's mutex.
// Failure: goes to ClientCore::fail() where trying again is no use.
class Link : public ConnectionOwner {
 public:
  Link(ClientCore& core, int server);
  ~Link() override;

  void dial();
  void redial();  // drops the connection and makes another, at once
  void kick();    // there may be something to send, or memory to receive it in
  void close();   // for good

  // ---- locked
  struct Item {
    enum class Kind { step_begin, push, rows_push, step_end, request };
    Kind kind;
    int index = 0;  // slice or table
    std::shared_ptr<Request> request;
  };
  void enqueue_locked(Item item);  // nothing happens until it is ready: see queue_again_locked()
  bool is_proven_locked() const { return proven_; }
  bool is_welcome_locked() const { return welcome_; }  // it has answered our Hello
  bool is_ready_locked() const { return ready_; }      // and it has a model
  // What it said last, also while there is no connection.
  bool lacks_model_locked() const { return lacks_model_; }
  bool is_local_locked() const { return reach_ == Reach::local; }
  std::uint64_t finished_locked() const { return finished_; }
  const std::string& spec_locked() const { return spec_; }
  std::shared_ptr<const SegmentReader> reader_locked() const { return reader_; }
  // Memory for what the layout has on this server.
  void set_layout_locked();
  OutboxMemory& outbox() { return outbox_; }
  const std::byte* inbox() const { return inbox_.data(); }
  WireType wire() const;  // of what travels here, once it is proven
  // "not reachable: connection refused; 3 reconnects", or empty when it is connected.
  std::string trouble_locked() const;

  // ConnectionOwner
  void opened(const std::string& identity) override;
  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override;
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override;
  bool produce(Outgoing& next) override;

 private:
  enum class Reach { unknown, local, remote };
  enum class LocalNameState { known, wanted, asked };  // of the server's Unix socket

  // ---- client_link.cpp
  void watch(std::unique_ptr<Connection> connection);
  void drop();
  void drive(std::uint32_t events);
  void lost(const std::string& reason);
  void enter();  // the connection stays: say hello
  UniqueFd connect_unix(const std::string& name);
  UniqueFd connect_tcp();
  HandshakeOptions handshake() const;

  // ---- client_inbound.cpp
  void on(const Welcome& message, UniqueFd file);
  void on(const LocalName& message);
  void on(const Values& message);
  void on(const RowsDone& message);
  void on(const Rows& message);
  void on(const StepDone& message);
  void on(const PullDone& message);
  void on(const Held& message);
  void on(const SliceState& message, std::byte* bulk, std::size_t bulk_bytes);
  void on(const TablePiece& message, std::byte* bulk, std::size_t bulk_bytes);
  void on(const CutDone& message);
  void on(const Stats& message);
  void on(const Refused& message);
  void finish_part_locked(std::uint64_t request, Request::Kind kind);
  // Nothing: nobody waits for it any more.
  std::shared_ptr<Request> find_locked(std::uint64_t request, Request::Kind kind);
  std::shared_ptr<Request> cut_locked();
  const PlacedSlice& own_slice_locked(std::int32_t slice) const;

  // ---- client_outbound.cpp
  bool produce_hello(Outgoing& next);
  bool produce_initial(Outgoing& next);
  bool produce_item_locked(const Item& item, Outgoing& next);
  bool produce_push_locked(int slice, Outgoing& next);
  bool produce_request_locked(const std::shared_ptr<Request>& request, Outgoing& next);
  void queue_again_locked();

  ClientCore& core_;
  const int server_;
  Reach reach_ = Reach::unknown;
  std::unique_ptr<Connection> connection_;
  std::uint32_t watched_events_ = 0;
  UniqueFd better_;  // a Unix socket that takes the connection's place
  EventLoop::TimerId timer_ = 0;
  std::chrono::milliseconds pause_;
  std::minstd_rand random_;
  std::size_t next_address_ = 0;
  bool closed_ = false;
  bool said_hello_ = false;
  LocalNameState local_name_ = LocalNameState::known;
  bool has_been_proven_ = false;  // on any connection

  // How far the chief's initial state has been sent.
  std::size_t initial_next_ = 0;
  std::vector<std::byte> initial_bytes_;

  std::shared_ptr<Request> sending_, receiving_;  // whose memory is in use
  std::vector<std::byte> piece_;                  // of a cut, being received

  // ---- guarded by the core's mutex
  bool proven_ = false;
  bool welcome_ = false;
  bool lacks_model_ = false;
  bool ready_ = false;
  std::uint64_t finished_ = 0;
  std::string spec_;
  std::string reason_ = "not tried yet";  // why it is not connected
  std::uint64_t losses_ = 0;
  std::deque<Item> queue_;
  std::shared_ptr<const SegmentReader> reader_;
  OutboxMemory outbox_;
  std::vector<std::byte> inbox_;
};

}  // namespace cohort::ps
