#pragma once

#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// Port numbers that no other job on this machine gets while this object lives.
//
// A port is published to a task before the task listens on it, so somebody must keep it free in
// between without occupying it (a program that does not set SO_REUSEADDR must be able to bind).
// Two measures together do that: numbers come from outside the kernel's ephemeral range where the
// machine leaves room, so no outgoing connection takes one by chance; and each is claimed by an
// abstract Unix socket named after it, which the kernel drops with the process, however that ends.
// Confined to one thread. Throws Error when no port is to be had.
class PortReservation {
 public:
  int reserve();
  void release_all() { claims_.clear(); }

 private:
  std::vector<UniqueFd> claims_;
};

// Inclusive bounds of the numbers that reserve() draws from, given the kernel's ephemeral range.
struct PortRange {
  int first;
  int last;
};
PortRange ports_outside(PortRange ephemeral);
PortRange ephemeral_ports();  // net.ipv4.ip_local_port_range

}  // namespace cohort::launch
