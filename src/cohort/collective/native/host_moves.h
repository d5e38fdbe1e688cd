#pragma once

#include "cohort/collective/native/hierarchical.h"

namespace cohort::collective {

// A step of a larger call among the members of this host; counts and root are in members.
void run_local(const Hosts& hosts, const Call& step, Deadline deadline);

// Messages that this rank has under way between hosts. wait() returns when all are done.
class Messages {
 public:
  explicit Messages(const Hosts& hosts) : hosts_(hosts) {}
  void send(int rank, const std::byte* data, std::size_t bytes);
  void receive(int rank, std::byte* data, std::size_t bytes);
  void wait(Deadline deadline);

 private:
  const Hosts& hosts_;
  std::vector<std::pair<std::unique_ptr<transport::Transfer>, std::size_t>> transfers_;
};

// all_gather(_v), gather, scatter, all_to_all(_v) over several hosts. A barrier is done
// when all ranks have agreed on it.
void host_move(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
