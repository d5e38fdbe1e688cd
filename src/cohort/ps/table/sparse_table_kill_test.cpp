#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <memory>

#include "cohort/base/sanitized_test.h"
#include "cohort/ps/kill_rounds_test.h"
#include "cohort/ps/table/reference_table_test.h"
#include "cohort/ps/table/sparse_table.h"
#include "cohort/ps/table/table_arena_test.h"

namespace cohort::ps {
namespace {

constexpr int kDimension = 4;
constexpr double kKillLr = 0.05;
constexpr int kTableKills = 40;
constexpr int kRoundsATable = 10;

// Few keys that come again, and new ones all the time, so that index, journal and slots grow while
// rows grow old.
RowGradients gradients_of(std::uint64_t version) {
  return some_gradients(version, 20 + version % 300, 200 + 20 * version, kDimension, 4096);
}

// SIGKILL from the kernel, at no instant that the process could know of.
void die_in(long nanoseconds) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  const itimerspec when = {{}, {0, nanoseconds}};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      ::timer_settime(timer, 0, &when, nullptr) != 0)
    ::_exit(1);
}

// Updates the table until it is killed.
[[noreturn]] void update_until_killed(const TableSpec& spec, const UpdateRule& rule,
                                      ArenaOfTest& arena, long nanoseconds) {
  die_in(nanoseconds);
  try {
    auto table = SparseTable::open(spec, rule, 1, arena.arena(), 0);
    for (std::uint64_t version = table->version() + 1;; ++version) {
      const std::pair<int, std::uint64_t> ledger[] = {{0, version}};
      if (version % 7 == 0) {
        table->prepare(gradients_of(version + 5000), kKillLr, version, {});
        table->roll_back();
      }
      table->prepare(gradients_of(version), kKillLr, version, ledger);
      table->commit();
    }
  } catch (...) {
    ::_exit(1);
  }
}

TEST(SparseTable, KilledAtAnyInstantItHasWholeUpdatesOnly) {
  UpdateRule rule;
  rule.kind = UpdateRule::Kind::adam;
  TableSpec spec;
  spec.name = "users";
  spec.dimension = kDimension;
  CounterRandom random(3, RandomStream::kUser);
  std::unique_ptr<ArenaOfTest> arena;
  std::unique_ptr<ReferenceTable> reference;
  std::uint64_t updates = 0;
  const int rounds = kill_rounds(kTableKills);
  for (int round = 0; round < rounds; ++round) {
    if (round % kRoundsATable == 0) {
      spec.admit_after = 1 + round / kRoundsATable % 3;
      spec.keep_for = round / kRoundsATable % 2 == 0 ? 0 : 30;
      arena = std::make_unique<ArenaOfTest>();
      SparseTable::create(spec, rule, 1, arena->arena(), 0);
      reference = std::make_unique<ReferenceTable>(spec, rule);
    }
    const auto nanoseconds = static_cast<long>(50'000 + random.below(3'000'000));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) update_until_killed(spec, rule, *arena, nanoseconds);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
    if (round % 2 == 0) continue;  // the next process, too, finds what this one left

    auto table = SparseTable::open(spec, rule, 1, arena->arena(), 0);
    EXPECT_EQ(table->ledger(0), table->version());
    while (reference->version() < table->version()) {
      reference->update(gradients_of(reference->version() + 1), kKillLr, reference->version() + 1);
      ++updates;
    }
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < 200 + 20 * table->version(); ++key)
      keys.push_back(key * 4096);
    std::vector<float> values(keys.size() * kDimension);
    table->read(keys, values.data());
    ASSERT_EQ(values, reference->read(keys))
        << "round " << round << ", version " << table->version();
    EXPECT_GE(table->rows(), reference->live());
  }
  EXPECT_GT(updates, static_cast<std::uint64_t>(rounds) / (kSanitized ? 4 : 1));
}

}  // namespace
}  // namespace cohort::ps
