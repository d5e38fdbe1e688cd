#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/base/process/checked_wait.h"

// Two processes prove to each other that they know the job's secret, before any other byte of a
// connection is looked at. Three messages of fixed size:
//
//   client -> server  ClientHello  magic, version, protocol, mode, nonce, identity
//   server -> client  ServerHello  magic, version, protocol, mode, status, nonce, identity, proof
//   client -> server  ClientProof  proof
//
//   server's proof = HMAC(secret, "server" label, ClientHello, ServerHello without its proof)
//   client's proof = HMAC(secret, "client" label, ClientHello, ServerHello with its proof)
//
// The labels make a reflected proof worthless, the fresh nonces of both sides a replayed one. Both
// identities and the protocol are covered, so a connection cannot be passed on to another service
// of the job. Keys for the frames that follow, one a direction, come from the same transcript.
//
// Open mode (a job without a secret; for loopback, or when a person insists) runs the same messages
// under a key of zeros: it proves nothing. It is a mode of its own, covered by the transcript: a
// side that has a secret never talks to one in open mode, whatever the bytes say.
namespace cohort {

// What both ends of a connection must agree on, as four letters: "STOR".
constexpr std::uint32_t protocol_id(const char (&name)[5]) {
  std::uint32_t id = 0;
  for (int i = 3; i >= 0; --i) id = id << 8 | static_cast<unsigned char>(name[i]);
  return id;
}

constexpr std::size_t kMaxIdentity = 126;
// A server gives an unproven client this long, and no more bytes than the two messages have.
constexpr std::chrono::seconds kHandshakeTimeout{5};

struct HandshakeOptions {
  std::uint32_t protocol = 0;
  std::optional<Secret> secret;  // nothing: open mode
  std::string identity;          // who we are, for the other side; cut to kMaxIdentity bytes
};

struct SessionKeys {
  SessionKeys() = default;
  SessionKeys(const SessionKeys&) = default;
  SessionKeys& operator=(const SessionKeys&) = default;
  ~SessionKeys();

  Digest client_to_server{};
  Digest server_to_client{};
};

struct HandshakeResult {
  SessionKeys keys;
  std::string peer_identity;  // proven in secret mode; the peer's claim in open mode
};

// The server's side, fed by an event loop: costs a few hundred bytes a client, never blocks.
// Confined to one thread.
class ServerHandshake {
 public:
  enum class State { waiting, done, failed };

  explicit ServerHandshake(const HandshakeOptions& options);

  // Takes bytes that arrived and returns how many it used; what is left over after `done` belongs
  // to the frames that follow. Uses nothing once failed.
  std::size_t feed(std::string_view bytes);

  // Bytes to send, each once. After `failed` they tell the client why: send them, then close.
  std::string take_output();

  State state() const { return state_; }
  const std::string& failure() const { return failure_; }  // one clause, for the server's log
  std::size_t wanted() const { return wanted_ - input_.size(); }
  HandshakeResult result() const { return result_; }  // once done

 private:
  void on_hello();
  void on_proof();
  void fail(std::string failure);

  HandshakeOptions options_;
  State state_ = State::waiting;
  std::string failure_;
  std::string input_;
  std::string output_;
  std::size_t wanted_;
  std::string transcript_;  // empty until the hello came
  HandshakeResult result_;
};

// The client's side, fed by an event loop. Confined to one thread.
// Failure: feed() throws AuthError (the server does not belong to this job) or ProtocolError (it
// does not speak this protocol); both name `peer`.
class ClientHandshake {
 public:
  ClientHandshake(const HandshakeOptions& options, std::string peer);

  // As of ServerHandshake: returns how many bytes it used.
  std::size_t feed(std::string_view bytes);
  std::string take_output();  // bytes to send, each once; the first are there from the start

  bool done() const { return done_; }
  std::size_t wanted() const;
  HandshakeResult result() const { return result_; }  // once done

 private:
  void on_answer();

  HandshakeOptions options_;
  std::string peer_;
  std::string input_;
  std::string output_;
  std::string transcript_;
  bool done_ = false;
  HandshakeResult result_;
};

// The two sides over a connected socket; at most `deadline` (the server's at most
// kHandshakeTimeout), with an eye on `check`. `peer` is who errors name. AuthError: the peer does
// not belong to this job; ProtocolError: it does not speak this protocol; PeerError, TimeoutError.
HandshakeResult client_handshake(int fd, const HandshakeOptions& options, Deadline deadline,
                                 const std::string& peer, const Check& check = {});
HandshakeResult server_handshake(int fd, const HandshakeOptions& options, Deadline deadline,
                                 const std::string& peer, const Check& check = {});

}  // namespace cohort
