#include "cohort/service/page/sessions.h"

#include <gmock/gmock.h>

#include <set>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/service/page/cookies.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

constexpr Millis kSecond = 1000;
constexpr Millis kHour = 3600 * kSecond;

class SessionsTest : public testing::Test {
 protected:
  SessionOwner owner_of(const NewToken& token) {
    return {.user = token.row.user, .role = token.row.role, .token = Tokens::digest(token.secret)};
  }

  ScratchFolder root_;
  RunStore store_{root_.path()};
  Tokens tokens_{store_};
  Sessions sessions_{store_};
};

TEST_F(SessionsTest, ALinkWorksOnceAndForAMinute) {
  const SessionOwner ada{.user = "ada", .role = UserRole::user};
  const std::string code = sessions_.make_link(ada, 0);
  EXPECT_THAT(code, testing::MatchesRegex("[A-Za-z0-9_-]{43}"));
  EXPECT_FALSE(sessions_.use_link(code + "x", 0));
  EXPECT_FALSE(sessions_.use_link("", 0));
  const auto used = sessions_.use_link(code, 60 * kSecond - 1);
  ASSERT_TRUE(used);
  EXPECT_EQ(used->user, "ada");
  EXPECT_EQ(used->role, UserRole::user);
  EXPECT_FALSE(sessions_.use_link(code, 1));
  const std::string late = sessions_.make_link(ada, 0);
  EXPECT_FALSE(sessions_.use_link(late, 60 * kSecond));
  EXPECT_FALSE(sessions_.use_link(late, 0));  // nor later on
}

TEST_F(SessionsTest, LinksThatAreNotUsedDoNotPileUp) {
  const std::string first = sessions_.make_link({.user = "ada"}, 0);
  std::string last;
  for (int i = 1; i <= 1000; ++i) last = sessions_.make_link({.user = "ada"}, i);
  EXPECT_FALSE(sessions_.use_link(first, 1000));
  EXPECT_TRUE(sessions_.use_link(last, 1000));
}

TEST_F(SessionsTest, EndsAfterTwelveHoursOrWhenItIsSignedOut) {
  const std::string secret = sessions_.begin({.user = "root", .role = UserRole::admin}, 0);
  ASSERT_TRUE(sessions_.find(secret, 12 * kHour - 1));
  EXPECT_EQ(sessions_.find(secret, 0)->role, UserRole::admin);
  EXPECT_FALSE(sessions_.find(secret, 12 * kHour));
  EXPECT_TRUE(sessions_.has_any(12 * kHour - 1));
  EXPECT_FALSE(sessions_.has_any(12 * kHour));
  EXPECT_FALSE(sessions_.find("", 0));
  EXPECT_FALSE(sessions_.find(Tokens::digest(secret), 0));
  sessions_.end(secret);
  EXPECT_FALSE(sessions_.find(secret, 0));
}

TEST_F(SessionsTest, EndsWithItsToken) {
  const NewToken removed = tokens_.create("ada", UserRole::user, 1, 0);
  const NewToken rotated = tokens_.create("bob", UserRole::viewer, 1, 0);
  const NewToken short_lived = tokens_.create("eve", UserRole::viewer, 1, -20 * kHour);
  const std::string first = sessions_.begin(owner_of(removed), 0);
  const std::string second = sessions_.begin(owner_of(rotated), 0);
  const std::string third = sessions_.begin(owner_of(short_lived), 0);
  EXPECT_EQ(sessions_.find(first, 0)->user, "ada");
  EXPECT_EQ(sessions_.find(second, 0)->role, UserRole::viewer);
  EXPECT_TRUE(sessions_.find(third, 4 * kHour - 1));
  tokens_.remove(removed.row.id);
  tokens_.rotate(rotated.row.id, 0);
  EXPECT_FALSE(sessions_.find(first, 0));
  EXPECT_FALSE(sessions_.find(second, 0));
  EXPECT_FALSE(sessions_.find(third, 4 * kHour));
}

TEST_F(SessionsTest, OutliveTheServiceAndTheFileHasNoSecret) {
  const std::string secret = sessions_.begin({.user = "ada", .role = UserRole::user}, 0);
  sessions_.begin({.user = "bob", .role = UserRole::user}, 13 * kHour);  // removes what has ended
  RunStore again(root_.path());
  EXPECT_FALSE(Sessions(again).find(secret, 0));
  const std::string kept = sessions_.begin({.user = "ada", .role = UserRole::user}, 13 * kHour);
  EXPECT_EQ(Sessions(again).find(kept, 13 * kHour)->user, "ada");
  auto row = again.database().prepare_once("SELECT digest FROM sessions");
  while (row.step()) EXPECT_THAT(row.text(0), testing::MatchesRegex("[0-9a-f]{64}"));
}

HttpRequest with_headers(HttpHeaders headers, bool tls = false) {
  HttpRequest request{.method = "GET", .target = "/", .headers = std::move(headers)};
  request.peer.is_tls = tls;
  return request;
}

TEST(Cookies, AreNotForScriptsOrOtherSitesAndUnderTlsForThisHostAlone) {
  using std::chrono::hours;
  const HttpRequest plain = with_headers({{"host", "127.0.0.1:8080"}});
  EXPECT_EQ(session_cookie(plain, "abc", hours(12)),
            "cohort_session_8080=abc; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
  EXPECT_EQ(session_cookie(plain, "", hours(12)),
            "cohort_session_8080=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
  const HttpRequest tls = with_headers({{"host", "train.example.org"}}, /*tls=*/true);
  EXPECT_EQ(session_cookie(tls, "abc", hours(12)),
            "__Host-cohort_session=abc; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200; Secure");
}

TEST(Cookies, HaveTheNameOfThePort) {
  const auto name = [](const std::string& host) {
    return cookie_name(with_headers({{"host", host}}));
  };
  EXPECT_EQ(name("[::1]:8080"), "cohort_session_8080");
  EXPECT_EQ(name("[::1]"), "cohort_session");
  EXPECT_EQ(name("localhost"), "cohort_session");
  EXPECT_EQ(name("localhost:80;x=1"), "cohort_session");
  EXPECT_EQ(name("localhost:123456"), "cohort_session");
  EXPECT_EQ(shown_session(with_headers(
                {{"host", "h:1"}, {"cookie", "x=1;cohort_session_1=a ; cohort_session_1=b"}})),
            "a");
  EXPECT_EQ(shown_session(with_headers({{"host", "h:1"}, {"cookie", "cohort_session_12=a"}})), "");
  EXPECT_EQ(shown_session(with_headers({{"host", "h:1"}})), "");
}

}  // namespace
}  // namespace cohort::service
