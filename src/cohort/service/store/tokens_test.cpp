#include "cohort/service/store/tokens.h"

#include <gmock/gmock.h>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

constexpr Millis kTokenDay = 24 * 3600 * Millis{1000};

TEST(Tokens, AreFoundByTheirSecretUntilTheyExpire) {
  ScratchFolder root;
  RunStore store(root.path());
  Tokens tokens(store);
  const auto made = tokens.create("ada", UserRole::viewer, 2, 1000);
  EXPECT_THAT(made.secret, testing::MatchesRegex("ct_[A-Za-z0-9_-]{43}"));
  const auto found = tokens.find(made.secret, 1000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, made.row.id);
  EXPECT_EQ(found->user, "ada");
  EXPECT_EQ(found->role, UserRole::viewer);
  EXPECT_TRUE(tokens.find(made.secret, 1000 + 2 * kTokenDay - 1));
  EXPECT_FALSE(tokens.find(made.secret, 1000 + 2 * kTokenDay));
  EXPECT_FALSE(tokens.find(made.secret + "x", 1000));
  EXPECT_FALSE(tokens.find("", 1000));
  EXPECT_FALSE(tokens.find(made.row.id, 1000));
  const auto forever = tokens.create("root", UserRole::admin, 0, 1000);
  EXPECT_TRUE(tokens.find(forever.secret, 1000 + 100'000 * kTokenDay));
  EXPECT_EQ(tokens.list().size(), 2u);
}

// One in 64 ids began with '-' once, and could not be named on a command line.
TEST(Tokens, AnIdIsAnArgumentOfACommand) {
  ScratchFolder root;
  RunStore store(root.path());
  Tokens tokens(store);
  for (int i = 0; i < 300; ++i)
    EXPECT_THAT(tokens.create("ada", UserRole::user, 1).row.id,
                testing::MatchesRegex("[0-9a-f]{12}"));
  store.database().execute(
      "UPDATE tokens SET id = '-_Ab3dEf' WHERE id = (SELECT min(id) FROM tokens)");
  EXPECT_TRUE(tokens.find(tokens.rotate("-_Ab3dEf").secret));  // an id of those times still works
}

TEST(Tokens, TheFileHasNoSecret) {
  ScratchFolder root;
  std::string secret;
  {
    RunStore store(root.path());
    secret = Tokens(store).create("ada", UserRole::user, 1).secret;
    auto row = store.database().prepare_once("SELECT digest FROM tokens");
    ASSERT_TRUE(row.step());
    EXPECT_THAT(row.text(0), testing::MatchesRegex("[0-9a-f]{64}"));
  }
  RunStore store(root.path());
  EXPECT_TRUE(Tokens(store).find(secret));
}

TEST(Tokens, RotatingEndsTheOldSecretAtOnce) {
  ScratchFolder root;
  RunStore store(root.path());
  Tokens tokens(store);
  const auto made = tokens.create("ada", UserRole::user, 3, 1000);
  const auto next = tokens.rotate(made.row.id, 1000 + kTokenDay);
  EXPECT_NE(next.secret, made.secret);
  EXPECT_EQ(next.row.id, made.row.id);
  EXPECT_EQ(next.row.expires, 1000 + 4 * kTokenDay);
  EXPECT_FALSE(tokens.find(made.secret, 2000));
  EXPECT_TRUE(tokens.find(next.secret, 2000));
  EXPECT_TRUE(tokens.remove(made.row.id));
  EXPECT_FALSE(tokens.remove(made.row.id));
  EXPECT_FALSE(tokens.find(next.secret, 2000));
  EXPECT_THAT(message_of<InvalidInput>([&] { tokens.rotate("none"); }),
              testing::HasSubstr("no token 'none'"));
}

TEST(Tokens, AreValidByTheirDigestUntilTheyEnd) {
  ScratchFolder root;
  RunStore store(root.path());
  Tokens tokens(store);
  const auto made = tokens.create("ada", UserRole::user, 1, 1000);
  const std::string digest = Tokens::digest(made.secret);
  EXPECT_TRUE(tokens.find_digest(digest, 2000));
  EXPECT_FALSE(tokens.find_digest(digest, made.row.expires));
  EXPECT_FALSE(tokens.find_digest(made.secret, 2000));
  tokens.rotate(made.row.id, 2000);
  EXPECT_FALSE(tokens.find_digest(digest, 2000));
}

TEST(Tokens, RefuseWhatMakesNoSense) {
  ScratchFolder root;
  RunStore store(root.path());
  Tokens tokens(store);
  EXPECT_THROW(tokens.create("", UserRole::user, 1), InvalidInput);
  EXPECT_THAT(message_of<InvalidInput>([&] { tokens.create("ada", UserRole::user, -1); }),
              testing::HasSubstr("days -1: 1 to 3650"));
  EXPECT_THROW(tokens.create("ada", UserRole::user, 3651), InvalidInput);
  EXPECT_EQ(user_role_of("admin"), UserRole::admin);
  EXPECT_FALSE(user_role_of("root"));
}

}  // namespace
}  // namespace cohort::service
