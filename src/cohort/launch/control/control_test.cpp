#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/socket.h"
#include "cohort/launch/control/control_answers.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/control/control_socket.h"

namespace cohort::launch {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::string answer_to(std::string_view line) {
  return answer_request(line, {.status = [] { return R"({"job": "x"})"; },
                               .scale = [](int workers) -> std::string {
                                 if (workers > 8) throw InvalidInput("9 is outside of 2 to 8");
                                 return "now " + std::to_string(workers);
                               }});
}

TEST(ControlAnswers, StatusAndScaleAreAnsweredAndRefusalsAreSaid) {
  EXPECT_EQ(answer_to(R"({"command": "status"})"), R"({"ok":true,"status":{"job":"x"}})");
  EXPECT_EQ(answer_to(R"({"command": "scale", "workers": 4})"), R"({"ok":true,"message":"now 4"})");
  EXPECT_EQ(answer_to(R"({"command": "scale", "workers": 9})"),
            R"({"ok":false,"message":"9 is outside of 2 to 8"})");
}

TEST(ControlAnswers, WhateverElseComesIsRefusedInWords) {
  for (const char* line :
       {"", "{", "[]", "7", "null", "{}", R"({"command": 1})", R"({"command": "fire"})",
        R"({"command": "scale"})", R"({"command": "scale", "workers": "4"})",
        R"({"command": "scale", "workers": 4.5})", R"({"command": "scale", "workers": 1e99})",
        R"({"command": "scale", "workers": 99999999999})",
        R"({"command": "scale", "workers": -99999999999})",
        R"({"command": "scale", "workers": 18446744073709551615})", "\xff\xfe"})
    EXPECT_THAT(answer_to(line), HasSubstr(R"("ok":false,"message":")")) << line;
  EXPECT_THAT(answer_to(std::string(60'000, '[')), HasSubstr("no JSON object"));
  EXPECT_THAT(answer_to("{\"command\": \"" + std::string(5000, 'x') + "\"}"),
              ::testing::SizeIs(::testing::Lt(300)));
}

// A socket whose loop runs on a thread of its own.
class ControlSocketTest : public ::testing::Test {
 protected:
  ControlSocketTest()
      : path_(ControlSocket::new_path()),
        socket_(std::make_unique<ControlSocket>(
            path_, loop_, [](std::string_view line) { return "<" + std::string(line) + ">"; })),
        thread_([this] { loop_.run(); }) {}
  ~ControlSocketTest() override {
    loop_.post([this] { socket_.reset(); });
    loop_.stop();
    thread_.join();
  }

  UniqueFd connect() { return connect_to(Endpoint::unix_path(path_), Deadline::after(seconds(5))); }
  std::string ask(std::string_view line) {
    return ask_launcher(path_, line, Deadline::after(seconds(5)));
  }
  static bool ends(int fd) {
    char byte;
    try {
      recv_all(fd, &byte, 1, Deadline::after(seconds(5)), "socket");
      return false;
    } catch (const PeerError&) {
      return true;
    }
  }

  std::filesystem::path path_;
  EventLoop loop_;
  std::unique_ptr<ControlSocket> socket_;
  std::thread thread_;
};

TEST_F(ControlSocketTest, AnswersLineByLineAndOnlyItsUserMayComeIn) {
  EXPECT_EQ(ask("hello"), "<hello>");
  const UniqueFd fd = connect();
  send_all(fd.get(), "a\nb\nhalf", Deadline::after(seconds(5)), "socket");
  char buffer[8];
  recv_all(fd.get(), buffer, 8, Deadline::after(seconds(5)), "socket");
  EXPECT_EQ(std::string_view(buffer, 8), "<a>\n<b>\n");
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ControlSocketTest, ALineWithoutEndAndACrowdAreShownTheDoor) {
  {
    const UniqueFd fd = connect();
    const std::string endless(ControlSocket::kLongestLine + 5000, 'x');
    try {
      send_all(fd.get(), endless, Deadline::after(seconds(5)), "socket");
    } catch (const PeerError&) {  // it was shown the door while it spoke
    }
    EXPECT_TRUE(ends(fd.get()));
  }
  EXPECT_EQ(ask("still here"), "<still here>");
  std::vector<UniqueFd> clients;
  for (std::size_t i = 0; i < ControlSocket::kMostClients; ++i) clients.push_back(connect());
  const UniqueFd late = connect();
  EXPECT_TRUE(ends(late.get()));
}

TEST_F(ControlSocketTest, WhoAsksWithoutReadingHoldsUpNobody) {
  const UniqueFd fd = connect();
  const std::string line = std::string(60'000, 'y') + "\n";
  for (int i = 0; i < 100; ++i)
    if (write_some(fd.get(), line).status == IoResult::Status::would_block) break;
  EXPECT_EQ(ask("next"), "<next>");
}

TEST_F(ControlSocketTest, WhoFindsItFullWaitsAndIsToldApartFromOneThatIsGone) {
  std::vector<UniqueFd> clients;
  for (std::size_t i = 0; i < ControlSocket::kMostClients; ++i) clients.push_back(connect());
  EXPECT_THROW(ask_launcher(path_, "x", Deadline::after(std::chrono::milliseconds(100))),
               TimeoutError);
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    clients.clear();
  });
  EXPECT_EQ(ask("patient"), "<patient>");
  leaves.join();
}

TEST(ControlSocket, WhatAKilledLauncherLeftIsGoneAndARunningOneThatTakesNobodyIsNot) {
  const auto path = ControlSocket::new_path();
  UniqueFd listener = listen_on(Endpoint::unix_path(path));
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<UniqueFd> waiting;  // until the system lets no more wait
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{.sun_family = AF_UNIX};
    path.native().copy(address.sun_path, sizeof address.sun_path - 1);
    ::connect(waiting.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  EXPECT_THROW(ask_launcher(path, "x", Deadline::after(std::chrono::milliseconds(100))),
               TimeoutError);
  listener.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_THROW(ask_launcher(path, "x", Deadline::after(seconds(5))), PeerError);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ControlSocket, LeavesNoFileBehind) {
  EventLoop loop;
  const auto path = ControlSocket::new_path();
  {
    ControlSocket socket(path, loop, [](std::string_view) { return std::string(); });
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(ask_launcher(path, "x", Deadline::after(seconds(5))), PeerError);
}

}  // namespace
}  // namespace cohort::launch
