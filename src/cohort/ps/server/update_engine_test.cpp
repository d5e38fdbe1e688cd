#include "cohort/ps/server/update_engine.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <map>
#include <random>

#include "cohort/base/unique_fd.h"

namespace cohort::ps {
namespace {

using Reason = Values::Reason;

// Says that records are durable when the test wants, in their order.
class SlowLog : public UpdateLog {
 public:
  void append(const UpdateRecord& record, std::function<void()> durable) override {
    EXPECT_FALSE(record.ledger.empty());
    waiting.push_back(std::move(durable));
  }
  void save_snapshot(const ServerState&, std::function<void()> done) override {
    EXPECT_TRUE(waiting.empty()) << "a snapshot must have what the log has before it";
    ++snapshots;
    records = 0;
    done();
  }
  bool wants_snapshot() const override { return records > 20; }

  void make_one_durable() {
    if (waiting.empty()) return;
    ++records;
    const auto durable = std::move(waiting.front());
    waiting.pop_front();
    durable();
  }

  std::deque<std::function<void()>> waiting;
  int records = 0;
  int snapshots = 0;
};

ModelSpec two_slices(int workers, Policy policy) {
  ModelSpec spec;
  spec.blocks = {{ElementType::f32, 16, {{"a", 0, 16, 0}}},
                 {ElementType::f64, 8, {{"b", 0, 8, 0}}}};
  spec.groups = {UpdateRule{.lr = 1}};
  spec.policy = policy;
  spec.workers = workers;
  spec.shards = workers;
  return spec;
}

template <typename T>
std::shared_ptr<std::vector<T>> filled(std::size_t elements, double value) {
  return std::make_shared<std::vector<T>>(elements, static_cast<T>(value));
}

// Workers that push small integers, so that every sum is exact whatever its order.
class RandomTraining : public testing::TestWithParam<int>, public UpdateEngine::Events {
 protected:
  void settled(int target, const Settled& push) override {
    const auto key = std::tuple(target, push.worker, push.sequence);
    if (decided_.contains(key)) {
      EXPECT_EQ(push.reason == Reason::dropped_late, decided_[key] == Reason::dropped_late);
      return;
    }
    decided_[key] = push.reason;
    if (push.reason == Reason::applied) applied_[target] += gradient(push.worker, push.sequence);
  }
  void rejected(int, const std::string& reason, const std::string&) override { FAIL() << reason; }
  void updated(int) override {}

  static double gradient(int worker, std::uint64_t sequence) {
    return 4.0 * (worker + 1) + static_cast<double>(sequence % 5) * 8;
  }
  bool is_done(int worker, std::uint64_t sequence) const {
    return decided_.contains({0, worker, sequence}) && decided_.contains({1, worker, sequence});
  }

  std::map<std::tuple<int, int, std::uint64_t>, Reason> decided_;
  std::map<int, double> applied_;
};

TEST_P(RandomTraining, ValuesAreTheSumOfWhatWasAppliedOnce) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int workers = 1 + pick(4);
  Policy policy;
  policy.mode = static_cast<Policy::Mode>(pick(3));
  if (pick(2) == 0 && workers > 1) policy.aggregate = workers / 2;
  const bool together = policy.mode == Policy::Mode::sync;
  const int required = AggregationRules::of(policy, workers).required;

  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  const auto state = ServerState::create(file.get(), two_slices(workers, policy), 0, {});
  SlowLog log;
  ServerStats stats;
  UpdateEngine engine(*state, pick(2) == 0 ? &log : nullptr, stats, *this);
  // Weights of 1: an update of `required` of the workers is divided by that.
  const double scale = !together || required == workers ? 1 : 1.0 / required;

  std::vector<std::uint64_t> sequence(static_cast<std::size_t>(workers), 1);
  for (int event = 0; event < 1500; ++event) {
    const int worker = pick(workers);
    std::uint64_t& next = sequence[static_cast<std::size_t>(worker)];
    if (is_done(worker, next)) next = std::max(next, engine.clocks().finished(worker)) + 1;
    if (pick(3) == 0) {
      log.make_one_durable();
      continue;
    }
    const int target = pick(2);
    Contribution contribution;
    contribution.worker = worker;
    contribution.sequence = next;
    const double value = gradient(worker, next);
    const auto fill = [&](auto memory) {
      contribution.bytes = std::as_bytes(std::span(*memory));
      contribution.memory = memory;
    };
    if (target == 0)
      fill(filled<float>(16, value));
    else
      fill(filled<double>(8, value));
    engine.offer(target, std::move(contribution));
  }
  while (!log.waiting.empty()) log.make_one_durable();

  for (int target = 0; target < 2; ++target) {
    EXPECT_GT(engine.target(target).version(), 3u);
    const std::byte* values = state->segment().current(target).values;
    double first = 0;
    if (target == 0)
      first = *reinterpret_cast<const float*>(values);
    else
      first = *reinterpret_cast<const double*>(values);
    EXPECT_EQ(first, -applied_[target] * scale);
    EXPECT_EQ(state->segment().version(target), engine.target(target).version());
    std::map<std::uint64_t, int> by_step;
    for (const auto& [key, reason] : decided_)
      if (std::get<0>(key) == target && reason == Reason::applied) ++by_step[std::get<2>(key)];
    for (const auto& [step, count] : by_step)
      EXPECT_TRUE(!together || count == required) << "step " << step << ": " << count;
  }
  EXPECT_EQ(stats.applied, static_cast<std::uint64_t>(std::count_if(
                               decided_.begin(), decided_.end(),
                               [](const auto& entry) { return entry.second == Reason::applied; })));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraining, testing::Range(0, 60));

}  // namespace
}  // namespace cohort::ps
