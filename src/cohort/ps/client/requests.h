#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cohort::ps {

// What a caller asks of several servers, each of which answers. Frozen by the caller that waits for
// it and by links while they send or receive its memory.
struct Request {
  enum class Kind { pull, rows, freeze, snapshot, stats, leave };

  // One server's share.
  struct Part {
    bool wanted = false;
    bool done = false;
    std::vector<std::uint64_t> keys;       // rows
    std::vector<float> values;             // rows
    std::uint64_t version = 0;             // rows
    std::vector<std::uint64_t> sequences;  // freeze
    std::string text;                      // stats

    bool is_open() const { return wanted && !done; }
  };
  // Of a snapshot: a slice's state, or a piece of a table.
  struct Piece {
    std::int32_t slice = -1;
    std::int32_t table = -1;
    std::uint64_t updates = 0;
    std::vector<std::byte> bytes;
  };

  Request(Kind what, int servers) : kind(what), parts(static_cast<std::size_t>(servers)) {}
  static std::shared_ptr<Request> to_all(Kind what, int servers);

  Part& part(int server) { return parts[static_cast<std::size_t>(server)]; }

  Kind kind;
  std::uint64_t id = 0;
  std::uint64_t clock = 0;     // pull
  std::uint64_t before = 0;    // pull
  std::uint64_t sequence = 0;  // rows
  int table = 0;               // rows
  std::vector<Part> parts;     // by server
  int missing = 0;             // parts that are wanted and not done

  std::vector<std::uint64_t> limits;  // snapshot: by worker
  std::deque<Piece> pieces;           // snapshot: that the caller has not taken yet
  bool broken = false;                // freeze, snapshot: a server was lost, it has to begin anew
};

// The requests that callers wait for, by number. Threads: none of its own; guarded by
// ClientState::mutex. Failure: ProtocolError for answers that do not fit.
class Requests {
 public:
  using Pointer = std::shared_ptr<Request>;

  void add(const Pointer& request);  // gives it a number where it has none
  void remove(const Request& request) { open_.erase(request.id); }

  // Null: no caller waits for it any more.
  Pointer find(std::uint64_t id, Request::Kind kind, int server) const;
  Pointer find_snapshot() const;  // the one that there is; throws where there is none
  // True: a caller has to look.
  bool finish_part(std::uint64_t id, Request::Kind kind, int server);
  void break_snapshots();                          // a server was lost
  std::vector<Pointer> open_of(int server) const;  // what it has not answered

 private:
  std::map<std::uint64_t, Pointer> open_;
  std::uint64_t next_ = 1;
};

}  // namespace cohort::ps
