// A store that says nothing more while its connections stay open: stopped, or behind a network that
// swallows bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

constexpr milliseconds kSilence{800};

// Between one client and the store: passes bytes on, swallows them, or keeps them for later.
class Relay {
 public:
  enum class Mode { pass, swallow, hold };

  explicit Relay(const Address& store)
      : listener_(listen_on(Endpoint::tcp("127.0.0.1", 0))),
        thread_([this, store] { run(store); }) {}
  ~Relay() {
    over_ = true;
    thread_.join();
  }

  Address address() const { return {"127.0.0.1", local_endpoint(listener_.get()).port()}; }
  void set(Mode mode) { mode_ = mode; }

 private:
  void run(const Address& store) {
    const UniqueFd client = accept_from(listener_.get(), soon());
    const UniqueFd server = connect_to(Endpoint::tcp(store.host, store.port), soon());
    const Deadline end = soon();
    while (!over_ && !end.expired()) {
      pollfd fds[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
      if (mode_ == Mode::hold || ::poll(fds, 2, 10) == 0) {
        std::this_thread::sleep_for(milliseconds(5));
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        if (fds[i].revents == 0) continue;
        char buffer[65536];
        const IoResult result = read_some(fds[i].fd, buffer, sizeof buffer);
        if (result.status == IoResult::Status::closed || result.status == IoResult::Status::failed)
          return;
        if (result.status != IoResult::Status::progress || mode_ == Mode::swallow) continue;
        send_all(fds[1 - i].fd, {buffer, result.count}, soon(), "relay");
      }
    }
  }

  const UniqueFd listener_;
  std::atomic<Mode> mode_{Mode::pass};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class SilentStore : public ::testing::Test {
 protected:
  std::unique_ptr<StoreClient> client() {
    return StoreClient::connect(
        {.address = relay_.address(), .secret = secret_, .name = "worker/1", .silence = kSilence},
        soon());
  }

  Secret secret_ = Secret::generate();
  StoreServer server_{StoreServerOptions{.secret = secret_}};
  Relay relay_{server_.address()};
};

TEST_F(SilentStore, IsWarnedOfLongBeforeTheCallsDeadline) {
  auto one = client();
  relay_.set(Relay::Mode::swallow);
  CaptureStderr();
  auto value = std::async(std::launch::async,
                          [&] { return one->get("key", Deadline::after(4 * kSilence)); });
  EXPECT_EQ(value.wait_for(2 * kSilence), std::future_status::timeout);  // no call ends by it
  EXPECT_THAT(GetCapturedStderr(), AllOf(HasSubstr("warning: the store at 127.0.0.1:"),
                                         HasSubstr("has been silent for")));
  try {
    value.get();
    FAIL() << "a get() that nothing answered";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("nothing came from it"), HasSubstr("'key'")));
  }
}

TEST_F(SilentStore, ThatIsOnlyStoppedCostsNoCall) {
  auto one = client();
  relay_.set(Relay::Mode::hold);
  CaptureStderr();
  auto value = std::async(std::launch::async, [&] { return one->try_get("key", soon()); });
  EXPECT_EQ(value.wait_for(2 * kSilence), std::future_status::timeout);
  relay_.set(Relay::Mode::pass);
  EXPECT_EQ(value.get(), std::nullopt);
  EXPECT_THAT(GetCapturedStderr(), AllOf(HasSubstr("has been silent"), HasSubstr("answers again")));
}

TEST_F(SilentStore, IsNotOneThatAnswersWhileACallWaits) {
  auto one = client();
  CaptureStderr();
  EXPECT_THROW(one->get("never set", Deadline::after(2 * kSilence)), TimeoutError);
  one->set("key", "value", soon());
  std::this_thread::sleep_for(kSilence);  // nothing waits: nothing need be heard
  EXPECT_EQ(one->get("key", soon()), "value");
  EXPECT_THAT(GetCapturedStderr(), Not(HasSubstr("silent")));
}

}  // namespace
}  // namespace cohort::cluster
