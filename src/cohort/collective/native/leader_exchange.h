#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/collective/native/hosts.h"
#include "cohort/collective/native/wire_record.h"

namespace cohort::collective {

// One leader's messages to and from other leaders in which data travels together with the
// description of the call, so that agreement costs no round of its own. A message is a WireRecord
// of fixed size, whatever was called; data of at most WireRecord::kPayloadBytes stands inside it,
// more follows as a second message without waiting for an answer. A description that differs ends
// the group, so data that no leader receives does no harm.
//
// Confined to one thread. Memory given to swap(), send() and receive() must stay until wait()
// returns or throws; after a mismatch, what was given to send() until this is destroyed.
class LeaderExchange {
 public:
  // `mismatch` not empty: the ranks of this host disagree already; only that is sent.
  LeaderExchange(const Hosts& hosts, const CallRecord& own, std::string mismatch);

  void send(int host, std::span<const std::byte> data);
  void receive(int host, std::span<std::byte> data);
  void swap(int host, std::span<const std::byte> out, std::span<std::byte> in) {
    receive(host, in);
    send(host, out);
  }
  // Until everything is sent and received, or, once a mismatch is known, all descriptions are.
  void wait(Deadline deadline);

  // The first disagreement that this leader saw or was told of, or "". What it then received is no
  // data.
  const std::string& mismatch() const { return mismatch_; }

 private:
  struct Message {
    int host;
    WireRecord::Bytes head;
    std::unique_ptr<transport::Transfer> head_transfer;
    std::unique_ptr<transport::Transfer> data_transfer;
    std::span<std::byte> in;  // of receives
    std::size_t data_bytes = 0;
  };
  void compare_all(Deadline deadline);
  void move_data(Deadline deadline);
  std::string compare(int host, const std::optional<WireRecord>& theirs) const;

  const Hosts& hosts_;
  const CallRecord own_;
  std::string mismatch_;
  std::vector<std::unique_ptr<Message>> sends_;
  std::vector<std::unique_ptr<Message>> receives_;
};

}  // namespace cohort::collective
