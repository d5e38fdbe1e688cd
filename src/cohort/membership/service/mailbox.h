#pragma once

#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/membership/protocol/message.h"

namespace cohort::membership {

// Messages by way of the job's rendezvous store, whose connections are authenticated and whose
// watches come in order and without a gap:
//   PREFIX/coordinator/from/MEMBER  what the member sends
//   PREFIX/coordinator/gone/MEMBER  set by the store when the member's connection ends, however it
//                                   ends
//   PREFIX/member/MEMBER            what it is sent
// Each side first watches, then the member speaks; so nothing is lost although a key holds only the
// last message. A message is on its way when send() returns; nothing waits for it to arrive.
//
// Threads: send() and wake() from any thread, next() from one. `store` must outlive it, and should
// have no other user: a thread that waits in next() is then woken by mail alone, and at once.
// Failure: PeerError when the store is gone, or was closed.

class MemberMailbox {
 public:
  MemberMailbox(cluster::StoreClient& store, std::string prefix, const MemberInfo& member,
                Deadline deadline);

  void send(const Message& message, Deadline deadline);
  // Nothing: the deadline passed, or a thread called wake().
  std::optional<Message> next(Deadline deadline);
  void wake(Deadline deadline);

  // This process goes on under another id, its next one. Not together with say_goodbye().
  void rename(const MemberInfo& member, Deadline deadline);
  // The coordinator need not take the end of this connection for a death.
  void say_goodbye(Deadline deadline);

 private:
  std::string gone_key(const std::string& member) const;

  cluster::StoreClient& store_;
  std::string prefix_;
  std::string member_;
  std::string inbox_;  // of all ids of this process
  cluster::StoreWatch watch_;
};

class CoordinatorMailbox {
 public:
  CoordinatorMailbox(cluster::StoreClient& store, std::string prefix, Deadline deadline);

  struct Mail {
    std::string member;
    std::optional<Message> message;  // nothing: the member's connection has ended
  };
  void send(const std::string& member, const Message& message, Deadline deadline);
  // Nothing: the deadline passed, or a thread called wake(). ProtocolError: a member sent what is
  // no message; the next call gives the next one.
  std::optional<Mail> next(Deadline deadline);
  void wake(Deadline deadline);

 private:
  cluster::StoreClient& store_;
  std::string prefix_;
  std::string inbox_;
  cluster::StoreWatch watch_;
};

}  // namespace cohort::membership
