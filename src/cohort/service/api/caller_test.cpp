#include "cohort/service/api/caller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/service/api/admin_token.h"
#include "cohort/service/api/rate_limit.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/origin.h"

namespace cohort::service {
namespace {

constexpr uid_t kService = 1234;

HttpRequest over_tcp(HttpHeaders headers) {
  return {.method = "GET", .target = "/", .headers = std::move(headers), .peer = {}};
}

HttpRequest over_socket(uid_t user) {
  HttpRequest request;
  request.peer.user = user;
  return request;
}

class CallerTest : public testing::Test {
 protected:
  // "user role", or the status that refuses them.
  std::string caller(const HttpRequest& request) {
    try {
      const Caller found = authenticate(request, tokens_, sessions_, kService);
      return found.user + " " + std::string(name_of(found.role));
    } catch (const ApiError& error) {
      return std::to_string(error.status());
    }
  }

  ScratchFolder root_;
  RunStore store_{root_.path()};
  Tokens tokens_{store_};
  Sessions sessions_{store_};
};

TEST_F(CallerTest, OfTheSameUserOnTheSocketIsAdmin) {
  EXPECT_EQ(caller(over_socket(kService)), user_name(kService) + " admin");
  EXPECT_EQ(caller(over_socket(0)), "root admin");
  EXPECT_EQ(caller(over_socket(kService + 1)), "401");
}

TEST_F(CallerTest, ShowsATokenOverTcp) {
  const std::string secret = tokens_.create("ada", UserRole::user, 1).secret;
  EXPECT_EQ(caller(over_tcp({})), "401");
  EXPECT_EQ(caller(over_tcp({{"authorization", "Bearer " + secret}})), "ada user");
  EXPECT_EQ(caller(over_tcp({{"authorization", "bearer  " + secret + " "}})), "ada user");
  EXPECT_EQ(caller(over_tcp({{"authorization", secret}})), "401");
  EXPECT_EQ(caller(over_tcp({{"authorization", "Basic " + secret}})), "401");
  EXPECT_EQ(caller(over_tcp({{"authorization", "Bearer "}})), "401");
  EXPECT_EQ(caller(over_tcp({{"authorization", "Bearer x" + secret}})), "401");
}

TEST_F(CallerTest, WithATokenHasItsRoleOnTheSocketToo) {
  HttpRequest request = over_socket(kService);
  const auto made = tokens_.create("ada", UserRole::viewer, 1);
  request.headers = {{"authorization", "Bearer " + made.secret}};
  EXPECT_EQ(caller(request), "ada viewer");
  tokens_.remove(made.row.id);
  EXPECT_EQ(caller(request), "401");
}

TEST_F(CallerTest, OfASessionShowsItsCookieAndForChangesAnOrigin) {
  const auto made = tokens_.create("ada", UserRole::user, 1);
  const std::string secret = sessions_.begin(
      {.user = "ada", .role = UserRole::user, .token = Tokens::digest(made.secret)});
  const auto with_cookie = [&](const std::string& method, const std::string& cookie,
                               HttpHeaders more = {}) {
    more.emplace_back("host", "127.0.0.1:8080");
    more.emplace_back("cookie", cookie);
    HttpRequest request = over_tcp(std::move(more));
    request.method = method;
    return caller(request);
  };
  const std::string cookie = "a=b; cohort_session_8080=" + secret;
  EXPECT_EQ(with_cookie("GET", cookie), "ada user");
  EXPECT_EQ(with_cookie("POST", cookie), "403");
  EXPECT_EQ(with_cookie("DELETE", cookie), "403");
  EXPECT_EQ(with_cookie("POST", cookie, {{"origin", "http://127.0.0.1:8080"}}), "ada user");
  EXPECT_EQ(with_cookie("GET", cookie + "x"), "401");
  EXPECT_EQ(with_cookie("GET", "cohort_session_8081=" + secret), "401");
  EXPECT_EQ(with_cookie("GET", "cohort_session_8080="), "401");
  // A token that is shown is what counts.
  EXPECT_EQ(with_cookie("GET", cookie, {{"authorization", "Bearer wrong"}}), "401");

  const Caller found = authenticate(over_tcp({{"host", "127.0.0.1:8080"}, {"cookie", cookie}}),
                                    tokens_, sessions_, kService);
  EXPECT_TRUE(is_still_allowed(found, tokens_, sessions_));
  tokens_.rotate(made.row.id);
  EXPECT_FALSE(is_still_allowed(found, tokens_, sessions_));
  EXPECT_EQ(with_cookie("GET", cookie), "401");
}

TEST_F(CallerTest, AdminTokenIsMadeOnceAndRenewedWhenItIsGone) {
  const RunFolders folders{root_.path()};
  ensure_admin_token(folders, tokens_, "ada");
  const auto first = admin_token(folders, tokens_);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->role, UserRole::admin);
  EXPECT_EQ(std::filesystem::status(admin_token_file(folders)).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ensure_admin_token(folders, tokens_, "ada");
  EXPECT_EQ(admin_token(folders, tokens_)->id, first->id);
  tokens_.remove(first->id);
  EXPECT_FALSE(admin_token(folders, tokens_));
  ensure_admin_token(folders, tokens_, "ada");
  EXPECT_NE(admin_token(folders, tokens_)->id, first->id);
}

TEST(Rights, OfAViewerAUserAndAnAdmin) {
  const Caller viewer{"v", UserRole::viewer}, user{"u", UserRole::user},
      admin{"a", UserRole::admin};
  EXPECT_TRUE(may_see(viewer, "other"));
  EXPECT_FALSE(may_change(viewer, "v"));
  EXPECT_TRUE(may_see(user, "u") && may_change(user, "u"));
  EXPECT_FALSE(may_see(user, "other") || may_change(user, "other"));
  EXPECT_TRUE(may_see(admin, "other") && may_change(admin, "other"));
}

// 0: let in.
int refused(HttpRequest request) {
  try {
    require_own_origin(request, {"train.example.org"});
    return 0;
  } catch (const ApiError& error) {
    return error.status();
  }
}

TEST(Origin, HostIsAnAddressOrANameOfTheService) {
  for (const char* host : {"127.0.0.1:8080", "[::1]:8080", "10.0.0.7", "localhost:1", "LOCALHOST",
                           "train.example.org:8443", "Train.Example.Org"})
    EXPECT_EQ(refused(over_tcp({{"host", host}})), 0) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "", "[::1", "example.org"})
    EXPECT_EQ(refused(over_tcp({{"host", host}})), 403) << host;
  EXPECT_EQ(refused(over_tcp({})), 400);
  EXPECT_EQ(refused(over_socket(kService)), 0);
}

TEST(Origin, ThePageItselfMayBeLinkedFromElsewhere) {
  const auto refused_page = [](HttpHeaders headers) {
    try {
      require_own_host(over_tcp(std::move(headers)), {});
      return 0;
    } catch (const ApiError& error) {
      return error.status();
    }
  };
  EXPECT_EQ(refused_page({{"host", "127.0.0.1:8080"}, {"sec-fetch-site", "cross-site"}}), 0);
  EXPECT_EQ(refused_page({{"host", "evil.example"}}), 403);
  EXPECT_EQ(refused_page({}), 400);
}

TEST(Origin, PagesOfOthersAreKeptOut) {
  const auto from = [](const char* origin) {
    return refused(over_tcp({{"host", "127.0.0.1:8080"}, {"origin", origin}}));
  };
  EXPECT_EQ(from("http://127.0.0.1:8080"), 0);
  for (const char* origin : {"https://127.0.0.1:8080", "http://127.0.0.1:8081", "null", "",
                             "http://evil.example", "http://127.0.0.1:8080.evil.example"})
    EXPECT_EQ(from(origin), 403) << origin;
  EXPECT_EQ(refused(over_tcp({{"host", "localhost"}, {"sec-fetch-site", "cross-site"}})), 403);
  EXPECT_EQ(refused(over_tcp({{"host", "localhost"}, {"sec-fetch-site", "same-origin"}})), 0);
}

TEST(RateLimit, AllowsABurstAndThenARateToEachUser) {
  using namespace std::chrono_literals;
  RateLimit limit(/*rate=*/2, /*burst=*/3);
  const auto start = RateLimit::Clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.take("ada", start));
  EXPECT_FALSE(limit.take("ada", start));
  EXPECT_TRUE(limit.take("bob", start));
  EXPECT_FALSE(limit.take("ada", start + 400ms));
  EXPECT_TRUE(limit.take("ada", start + 900ms));
  EXPECT_FALSE(limit.take("ada", start + 900ms));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.take("ada", start + 1h));
  EXPECT_FALSE(limit.take("ada", start + 1h));
}

}  // namespace
}  // namespace cohort::service
