#include "cohort/launch/plan/ports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <set>
#include <vector>

namespace cohort::launch {
namespace {

TEST(Ports, AreOutsideTheKernelsEphemeralRangeWhereThereIsRoom) {
  auto below = ports_outside({32768, 60999});
  EXPECT_GE(below.first, 1024);
  EXPECT_EQ(below.last, 32767);
  auto above = ports_outside({1024, 60999});
  EXPECT_EQ(above.first, 61000);
  EXPECT_EQ(above.last, 65535);
  auto crowded = ports_outside({1024, 65535});
  EXPECT_GT(crowded.last - crowded.first, 1000);
}

TEST(Ports, TwoReservationsNeverHoldTheSamePort) {
  PortReservation first, second;
  std::set<int> seen;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(seen.insert(first.reserve()).second);
    EXPECT_TRUE(seen.insert(second.reserve()).second);
  }
}

TEST(Ports, AReservedPortCanBeBoundWithoutReuseaddr) {
  PortReservation ports;
  int port = ports.reserve();
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)}};
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
}

UniqueFd take_name(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fd.reset();
  return fd;
}

TEST(Ports, WhoTakesEveryNameKeepsNobodyFromAPort) {
  const PortRange range{21000, 21049};
  std::vector<UniqueFd> taken;
  for (int port = range.first; port <= range.last; ++port)
    for (const auto& name : {port_claim_name(port), fmt::format("cohort-port-{}", port)})
      taken.push_back(take_name(name));
  PortReservation ports(range);
  std::set<int> seen;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(seen.insert(ports.reserve()).second);
}

TEST(Ports, NamesAreThisUsers) {
  EXPECT_EQ(port_claim_name(12345), fmt::format("cohort-port-{}-12345", ::geteuid()));
}

}  // namespace
}  // namespace cohort::launch
