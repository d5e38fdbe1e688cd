#include "cohort/base/crypto/sha256_stream.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Sha256, PortionsGiveTheDigestOfTheWhole) {
  const std::string bytes(100'000, 'a');
  Sha256 stream;
  for (std::size_t at = 0; at < bytes.size(); at += 777)
    stream.update(std::string_view(bytes).substr(at, 777));
  EXPECT_EQ(stream.finish(), sha256(bytes));
}

TEST(Sha256, HexIsWhatSha256sumPrints) {
  Sha256 stream;
  stream.update("abc");
  EXPECT_EQ(to_hex(stream.finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace cohort
