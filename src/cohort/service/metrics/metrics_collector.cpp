#include "cohort/service/metrics/metrics_collector.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "cohort/base/log/log.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/metrics/job_metrics.h"
#include "cohort/service/store/periodic_thread.h"

namespace cohort::service {
namespace {

constexpr Millis kShortTurn = 1000;
constexpr Millis kLongTurn = 5000;
constexpr int kMostFailures = 5;
constexpr std::chrono::milliseconds kBetweenParts{5};
constexpr std::chrono::milliseconds kAfterFailure{60'000};

struct Followed {
  std::unique_ptr<JobMetrics> metrics;
  Millis next_turn = 0;
  Millis interval = kShortTurn;
  int failures = 0;  // one after the other
};

}  // namespace

struct MetricsCollector::State {
  explicit State(Options given) : options(std::move(given)) {}

  bool collect(const JobRow& job, Followed& followed, Millis now);
  void fail(const JobRow& job, Followed& followed, const std::exception& error, Millis now);
  void open();
  bool pass(Millis now);
  std::chrono::milliseconds turn();

  Options options;
  std::unique_ptr<RunStore> store;
  std::map<std::string, Followed> jobs;
  Millis last_pass = 0;
  PeriodicThread thread;  // ends first
};

bool MetricsCollector::State::collect(const JobRow& job, Followed& followed, Millis now) {
  if (!followed.metrics) {
    const auto whole = store->find_job(job.id);
    if (!whole) return false;  // deleted just now
    const auto spec = jobspec::resolved_from_json(whole->resolved).spec;
    const auto output =
        spec.output.empty() ? options.folders.output(job.id) : std::filesystem::path(spec.output);
    followed.metrics = std::make_unique<JobMetrics>(
        JobMetrics::Places{.folders = options.folders, .output = output}, spec);
  }
  const auto found = followed.metrics->collect(*store, job, options.engine(job.engine), now);
  followed.failures = 0;
  followed.interval = found.any ? kShortTurn : std::min(followed.interval + kShortTurn, kLongTurn);
  followed.next_turn = found.more ? now : now + followed.interval;
  const int read_whole = has_ended(job.state) ? job.attempt : job.attempt - 1;
  if (!found.more && read_whole > job.collected) store->set_collected(job.id, read_whole);
  return found.more;
}

void MetricsCollector::State::fail(const JobRow& job, Followed& followed,
                                   const std::exception& error, Millis now) {
  if (followed.failures++ == 0) log::warning("metrics of job {}: {}", job.id, error.what());
  followed.interval = kLongTurn;
  followed.next_turn = now + kLongTurn;
  if (has_ended(job.state) && followed.failures >= kMostFailures)
    store->set_collected(job.id, job.attempt);
}

void MetricsCollector::State::open() {
  if (!store) store = std::make_unique<RunStore>(options.folders.root, Durability::process_death);
}

bool MetricsCollector::State::pass(Millis now) {
  open();
  if (now < last_pass)  // the clock was set back: turns would be far away
    for (auto& [id, followed] : jobs) followed.next_turn = now;
  last_pass = now;
  const auto uncollected = store->uncollected_jobs();
  std::map<std::string, Followed> still;
  for (const auto& job : uncollected)
    if (auto known = jobs.extract(job.id)) still.insert(std::move(known));
  jobs = std::move(still);
  bool more = false;
  for (const auto& job : uncollected) {
    Followed& followed = jobs[job.id];
    const bool is_over = has_ended(job.state) && followed.failures == 0;
    if (now < followed.next_turn && !is_over) continue;
    try {
      more = collect(job, followed, now) || more;
    } catch (const std::exception& error) {
      fail(job, followed, error, now);
    }
  }
  return more;
}

std::chrono::milliseconds MetricsCollector::State::turn() {
  try {
    return pass(utc_now()) ? kBetweenParts : std::chrono::milliseconds(kShortTurn);
  } catch (const std::exception& error) {
    log::warning("metrics: {}", error.what());
    return kAfterFailure;
  }
}

MetricsCollector::MetricsCollector(Options options)
    : state_(std::make_unique<State>(std::move(options))) {}

MetricsCollector::~MetricsCollector() = default;

bool MetricsCollector::pass(Millis now) { return state_->pass(now); }

void MetricsCollector::start() {
  state_->open();
  state_->thread.start([this] { return state_->turn(); });
}

void MetricsCollector::stop() { state_->thread.stop(); }

}  // namespace cohort::service
