#include "cohort/jobspec/source/ignore_rules.h"

#include <gtest/gtest.h>

namespace cohort::jobspec {
namespace {

TEST(IgnorePatterns, StarsStopAtSlashesAndDoubleStarsDoNot) {
  EXPECT_TRUE(fits_pattern("*.py", "train.py"));
  EXPECT_FALSE(fits_pattern("*.py", "a/train.py"));
  EXPECT_TRUE(fits_pattern("**/*.py", "a/b/train.py"));
  EXPECT_TRUE(fits_pattern("**/*.py", "train.py"));
  EXPECT_TRUE(fits_pattern("a/**/z", "a/z"));
  EXPECT_TRUE(fits_pattern("a/**/z", "a/b/c/z"));
  EXPECT_TRUE(fits_pattern("a/**", "a/b/c"));
  EXPECT_FALSE(fits_pattern("a/*", "a/b/c"));
  EXPECT_TRUE(fits_pattern("?at[a-c]", "data"));
  EXPECT_FALSE(fits_pattern("dat[!a]", "data"));
  EXPECT_TRUE(fits_pattern("a[", "a["));
  EXPECT_TRUE(fits_pattern("\\*", "*"));
  EXPECT_FALSE(fits_pattern("\\*", "x"));
}

TEST(IgnoreRulesOfAFolder, TheLastRuleThatFitsDecides) {
  const IgnoreRules rules("# large things\n*.bin\n!keep.bin\n/data/\nlogs/*.txt\n\nbuild/\n");
  EXPECT_TRUE(rules.ignores("x.bin", false));
  EXPECT_TRUE(rules.ignores("a/b/x.bin", false));
  EXPECT_FALSE(rules.ignores("a/keep.bin", false));
  EXPECT_TRUE(rules.ignores("data", true));
  EXPECT_FALSE(rules.ignores("data", false));
  EXPECT_FALSE(rules.ignores("a/data", true));  // bound to the top folder
  EXPECT_TRUE(rules.ignores("a/build", true));
  EXPECT_TRUE(rules.ignores("logs/1.txt", false));
  EXPECT_FALSE(rules.ignores("a/logs/1.txt", false));
  EXPECT_FALSE(rules.ignores("# large things", false));
}

}  // namespace
}  // namespace cohort::jobspec
