#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

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

}  // namespace cohort::collective
