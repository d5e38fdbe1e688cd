#include "cohort/cluster/address.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"

namespace cohort::cluster {
namespace {

TEST(Address, SurvivesText) {
  for (const char* text : {"localhost:2222", "10.0.0.1:1", "node_7.example.com:65535", "[::1]:2222",
                           "[fe80::1%eth0]:80"})
    EXPECT_EQ(to_string(parse_address(text)), text);
  EXPECT_EQ(parse_address("[::1]:2222"), (Address{"::1", 2222}));
}

TEST(Address, AUserNameIsRefusedWithTheTextToWrite) {
  expect_invalid([] { parse_address("me@node1:2222"); },
                 {"me@node1:2222", "user name 'me'", "write 'node1:2222'"});
}

TEST(Address, ASchemeIsRefusedWithTheTextToWrite) {
  expect_invalid([] { parse_address("grpc://node1:2222"); }, {"'grpc://'", "write 'node1:2222'"});
}

TEST(Address, APortMustBeThereAndBeANumberInRange) {
  expect_invalid([] { parse_address("node1"); }, {"'node1' has no port", "'node1:2222'"});
  expect_invalid([] { parse_address("[::1]"); }, {"'[::1]' has no port"});
  expect_invalid([] { parse_address("node1:"); }, {"port ''", "not a number", "1 to 65535"});
  expect_invalid([] { parse_address("node1:http"); }, {"port 'http'", "not a number"});
  expect_invalid([] { parse_address("node1:-5"); }, {"port '-5'"});
  for (const char* port : {"0", "65536", "99999999999999999999999"})
    expect_invalid([&] { parse_address("node1:" + std::string(port)); },
                   {port, "out of range", "1 to 65535"});
}

TEST(Address, AHostMustBeOneNameOrIpAddress) {
  expect_invalid([] { parse_address(":2222"); }, {"':2222' has no host"});
  expect_invalid([] { parse_address("::1:2222"); }, {"::1:2222", "brackets", "[::1]:2222"});
  expect_invalid([] { parse_address("[::1:2222"); }, {"[::1:2222", "does not close"});
  expect_invalid([] { parse_address("[node1]:2222"); }, {"'node1' in brackets"});
  expect_invalid([] { parse_address("[::1]x:2222"); }, {"'x:2222' after the bracket"});
  expect_invalid([] { parse_address("a b:2222"); }, {"'a b:2222'", "character ' '"});
  expect_invalid([] { parse_address("a,b:2222"); }, {"character ','"});
}

TEST(Address, LoopbackIsKnownWithoutANameServer) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "::1", "[::1]",
                           "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"127.evil.example", "128.0.0.1", "localhost.example.com", "::2",
                           "0.0.0.0", "::", "", "node1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace cohort::cluster
