#pragma once

#include <set>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// Inclusive bounds of port numbers.
struct PortRange {
  int first;
  int last;
};
PortRange ephemeral_ports();  // net.ipv4.ip_local_port_range
// What PortReservation draws from, given the kernel's ephemeral range.
PortRange ports_outside(PortRange ephemeral);

// Port numbers that no other job on this machine gets while this object lives.
//
// A port is published to a task before the task listens on it, so the launcher must keep it free in
// between without occupying it (a program that does not set SO_REUSEADDR must be able to bind).
// Two measures together do that: numbers come from outside the kernel's ephemeral range where the
// machine leaves room, so no outgoing connection takes one by chance; and each is claimed by an
// abstract Unix socket named after this user and it, which the kernel drops with the process,
// however that ends. Such names are anybody's to take: where every one of them is taken, a port
// that no process listens on will do.
// Confined to one thread. Throws Error when no port is to be had.
class PortReservation {
 public:
  PortReservation();
  explicit PortReservation(PortRange range) : range_(range) {}

  int reserve();
  void release_all();

 private:
  PortRange range_;
  std::vector<UniqueFd> claims_;
  std::set<int> unclaimed_;  // given out without a claim
};

std::string port_claim_name(int port);  // of the abstract socket

}  // namespace cohort::launch
