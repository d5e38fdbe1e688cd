// Connections of people who do not belong to the job, while ranks work over TCP.
#include <gmock/gmock.h>

#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/cluster/store/store_client.h"
#include "rank_process.h"

namespace cohort::collective {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr rlim_t kUsualLimit = 1024;
constexpr int kStrangers = 1010;

// Where a rank listens, as soon as it says so.
Endpoint address_of(const cluster::StoreServer& server, int rank) {
  const Deadline soon = Deadline::after(seconds(20));
  auto store = cluster::StoreClient::connect(
      {.address = server.address(), .secret = {}, .name = "the test"}, soon);
  while (!soon.expired()) {
    for (const auto& [key, value] : store->list("", soon))
      if (key.ends_with(fmt::format("/tcp/{}", rank)))
        return Endpoint::tcp("127.0.0.1", static_cast<int>(*parse_unsigned(split(value, ' ')[0])));
    ::poll(nullptr, 0, 5);
  }
  throw TimeoutError(fmt::format("rank {} has published no address", rank));
}

TEST(Strangers, SilentOnesPastTheLimitOfOpenFilesDoNotEndAllReduce) {
  raise_file_limit(4 * kUsualLimit);
  cluster::StoreServer store;
  auto ranks = start(2, store, "g", "tcp-loop", kUsualLimit);
  std::vector<UniqueFd> strangers;
  for (int rank = 0; rank < 2; ++rank) {
    const Endpoint where = address_of(store, rank);
    for (int i = 0; i < kStrangers; ++i)
      strangers.push_back(connect_to(where, Deadline::after(seconds(20))));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank->line(seconds(2)), "");  // no error: it works on
  ranks[1]->signal(SIGKILL);
  EXPECT_THAT(ranks[0]->line(seconds(20)), HasSubstr("worker/1"));
}

}  // namespace
}  // namespace cohort::collective
