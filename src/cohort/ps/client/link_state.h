#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_state.h"
#include "cohort/ps/state/segment_reader.h"

namespace cohort::ps {

// What is known of one server, and the memory for its slices: shared by the parts of a ServerLink,
// and, with ClientState::mutex held, by callers.
struct LinkState {
  LinkState(ClientState& client, int number) : client(client), server(number) {}

  enum class Reach { unknown, local, remote };  // local: both are on one host

  ClientState& client;
  const int server;

  // ---- guarded by ClientState::mutex. `reach` changes once, before begin() returns.
  Reach reach = Reach::unknown;
  bool proven = false;       // this connection's handshake is done
  bool welcome = false;      // it has answered our Hello
  bool ready = false;        // and it has a model
  bool lacks_model = false;  // what it said last, also while there is no connection
  std::uint64_t finished = 0;
  std::string spec;
  std::string reason = "not tried yet";  // why it is not connected
  std::uint64_t losses = 0;
  std::shared_ptr<const SegmentReader> reader;

  // The partials of its slices on their way out; values that came in over TCP.
  OutboxMemory outbox;
  std::vector<std::byte> inbox;

  bool is_remote() const { return reach == Reach::remote; }
  bool is_local() const { return reach == Reach::local; }
  // Of what travels here, once the server is proven.
  WireType wire() const { return is_remote() ? client.options.wire : WireType::exact; }

  void set_layout_locked();
  void connection_lost_locked();
  // "is not reachable: connection refused; 3 reconnects", or empty when it is connected.
  std::string trouble_locked() const;
};

}  // namespace cohort::ps
