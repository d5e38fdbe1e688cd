#include "cohort/transport/shm/join.h"

#include <gtest/gtest.h>

#include <future>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/net/handshake.h"

namespace cohort::transport::shm {
namespace {

Authenticate knows(const std::optional<Secret>& secret) {
  return [secret](int socket, bool server, Deadline deadline, const Check& check) {
    const HandshakeOptions options{
        .protocol = protocol_id("TEST"), .secret = secret, .identity = {}};
    if (server)
      server_handshake(socket, options, deadline, "a rank", check);
    else
      client_handshake(socket, options, deadline, "rank 0", check);
  };
}

JoinOptions rank_of_two(int rank, const Authenticate& authenticate) {
  return {.key = "arena",
          .rank = rank,
          .size = 2,
          .part_bytes = std::size_t{1} << 20,
          .authenticate = authenticate};
}

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

TEST(ShmJoin, AStrangerGetsNoMemoryAndTheGroupFormsWithoutIt) {
  MemoryRendezvous rendezvous;
  const Secret secret = Secret::generate();
  auto first = std::async(std::launch::async,
                          [&] { return join(rendezvous, rank_of_two(0, knows(secret)), soon()); });
  EXPECT_THROW(join(rendezvous, rank_of_two(1, knows(Secret::generate())), soon()), AuthError);
  EXPECT_THROW(join(rendezvous, rank_of_two(1, knows(std::nullopt)), soon()), AuthError);
  auto second = join(rendezvous, rank_of_two(1, knows(secret)), soon());
  auto arena = first.get();
  std::byte* memory = arena->allocate(16);
  memory[3] = std::byte{7};
  EXPECT_EQ(second->resolve(arena->locate(memory, 16))[3], std::byte{7});
}

TEST(ShmJoin, MemoryThatAStrangerOffersIsNotTaken) {
  MemoryRendezvous rendezvous;
  auto stranger = std::async(std::launch::async, [&] {
    EXPECT_THROW(join(rendezvous, rank_of_two(0, knows(Secret::generate())),
                      Deadline::after(std::chrono::milliseconds(500))),
                 TimeoutError);
  });
  EXPECT_THROW(join(rendezvous, rank_of_two(1, knows(Secret::generate())), soon()), AuthError);
  stranger.get();
}

TEST(ShmJoin, ARankThatDoesNotComeIsATimeout) {
  MemoryRendezvous rendezvous;
  EXPECT_THROW(
      join(rendezvous, rank_of_two(0, {}), Deadline::after(std::chrono::milliseconds(100))),
      TimeoutError);
}

}  // namespace
}  // namespace cohort::transport::shm
