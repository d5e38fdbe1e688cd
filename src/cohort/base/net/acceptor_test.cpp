#include "cohort/base/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

// The limit of open files, `more` above what is open now, as long as this lives.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(probe.get() + more);
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Acceptor, PausesWithoutDescriptorsAndGoesOnWithThem) {
  EventLoop loop;
  std::vector<UniqueFd> accepted;
  UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
  const Endpoint where = local_endpoint(listener.get());
  Acceptor acceptor(loop, std::move(listener), "the test",
                    [&](UniqueFd socket) { accepted.push_back(std::move(socket)); });
  std::vector<UniqueFd> clients;
  // Once with descriptors: UBSan opens some itself when it sees a class for the first time.
  clients.push_back(connect_to(where, soon()));
  loop.run_once(soon());
  ASSERT_EQ(accepted.size(), 1u);
  accepted.clear();
  for (int i = 0; i < 3; ++i) clients.push_back(connect_to(where, soon()));
  {
    FewFiles limit(1);
    for (int i = 0; i < 5; ++i)
      loop.run_once(Deadline::after(std::chrono::milliseconds(10)));  // nothing is thrown
    EXPECT_LE(accepted.size(), 1u);
  }
  const Deadline deadline = soon();
  while (accepted.size() < 3 && !deadline.expired()) loop.run_once(deadline);
  EXPECT_EQ(accepted.size(), 3u);
}

TEST(Limits, TheLastDescriptorsAreNotForThoseWhoHaveProvenNothing) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  EXPECT_TRUE(is_short_of_files(static_cast<int>(limit.rlim_cur) - 1));
  if (most > 200) {
    EXPECT_FALSE(is_short_of_files(most / 2));
  }
  EXPECT_GE(unauthenticated_limit(), 16u);
  EXPECT_LE(unauthenticated_limit(), 1024u);
}

}  // namespace
}  // namespace cohort
