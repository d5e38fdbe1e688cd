#include "cohort/base/crypto/hmac.h"

#include <gtest/gtest.h>

#include <string>

namespace cohort {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (auto byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(Hmac, Sha256MatchesThePublishedVector) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hmac, MatchesRfc4231AlsoWhenTheMessageComesInParts) {
  // RFC 4231, test case 2.
  const std::string expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  EXPECT_EQ(hex(hmac_sha256("Jefe", {"what do ya want for nothing?"})), expected);
  EXPECT_EQ(hex(hmac_sha256("Jefe", {"what do ya ", "want for ", "nothing?"})), expected);
}

TEST(Hmac, AKeyIsGoodForManyMessages) {
  Hmac hmac("Jefe");
  Digest first = hmac({"one"});
  hmac({"two"});
  EXPECT_EQ(hmac({"one"}), first);
  EXPECT_NE(hmac({"two"}), first);
}

TEST(Hmac, ComparisonTellsEveryDifference) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
}

}  // namespace
}  // namespace cohort
