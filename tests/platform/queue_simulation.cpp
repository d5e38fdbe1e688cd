#include "tests/platform/queue_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace cohort::service {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace

QueueSimulation::QueueSimulation(std::vector<jobspec::Size> nodes, std::vector<SimulatedJob> jobs)
    : nodes_(std::move(nodes)),
      jobs_(std::move(jobs)),
      queue_(nodes_),
      held_(nodes_.size()),
      gpus_held_(nodes_.size()) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    by_id_[jobs_[i].job.id] = i;
    put(jobs_[i].arrives, What::arrives, i);
  }
}

void QueueSimulation::put(QueueTime at, What what, std::size_t job) {
  events_.push_back({at, made_++, what, job});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void QueueSimulation::run(const std::function<void(QueueTime)>& after) {
  while (!events_.empty()) {
    const QueueTime now = events_.front().at;
    while (!events_.empty() && events_.front().at == now) {
      std::pop_heap(events_.begin(), events_.end(), std::greater<>());
      const Event event = events_.back();
      events_.pop_back();
      happen(event);
    }
    carry_out(queue_.decide(now), now);
    ++decisions_;
    if (after) after(now);
  }
}

void QueueSimulation::happen(const Event& event) {
  SimulatedJob& job = jobs_[event.job];
  switch (event.what) {
    case What::arrives:
      queue_.add(job.job, event.at);
      break;
    case What::ends:
      job.ended = event.at;
      core_time_ += job.job.instance.cores * static_cast<double>(job.placement.size()) *
                    static_cast<double>(job.ended - job.begun);
      hold(job, job.placement, -1);
      job.placement.clear();
      queue_.remove(job.job.id, event.at);
      break;
    case What::returned:
      if (job.ended >= 0) break;
      hold(job, job.placement, -1);
      job.placement.resize(std::min(job.placement.size(), static_cast<std::size_t>(job.asked)));
      hold(job, job.placement, 1);
      queue_.returned(job.job.id, event.at);
      break;
  }
}

void QueueSimulation::carry_out(const Decision& decision, QueueTime now) {
  for (const QueueStart& start : decision.starts) {
    const std::size_t index = by_id_.at(start.id);
    SimulatedJob& job = jobs_[index];
    const int count = static_cast<int>(start.placement.size());
    require(job.begun < 0, fmt::format("{} starts twice", start.id));
    require(count >= job.job.least && count <= job.job.most,
            fmt::format("{} starts with {} instances", start.id, count));
    job.begun = now;
    job.placement = start.placement;
    hold(job, job.placement, 1);
    put(now + job.runs, What::ends, index);
  }
  for (const QueueScale& scale : decision.scales) {
    const std::size_t index = by_id_.at(scale.id);
    SimulatedJob& job = jobs_[index];
    require(job.begun >= 0 && job.ended < 0, scale.id + " is scaled and does not run");
    require(job.job.scales && scale.instances >= job.job.least && scale.instances <= job.job.most,
            fmt::format("{} is scaled to {}", scale.id, scale.instances));
    require(static_cast<int>(scale.placement.size()) == scale.instances, "places and instances");
    const bool grows = scale.placement.size() > job.placement.size();
    ++(grows ? grown_ : given_back_);
    job.asked = scale.instances;
    if (!grows) {  // held until it is returned
      put(now + 500, What::returned, index);
      continue;
    }
    hold(job, job.placement, -1);
    job.placement = scale.placement;
    hold(job, job.placement, 1);
  }
}

void QueueSimulation::hold(const SimulatedJob& job, const std::vector<Placed>& placement,
                           int sign) {
  const Amount size = amount_of(job.job.instance);
  for (const Placed& placed : placement) {
    const auto node = static_cast<std::size_t>(placed.node);
    const Amount there = amount_of(nodes_.at(node));
    for (std::size_t i = 0; i < size.size(); ++i) {
      held_[node][i] += sign * size[i];
      require(held_[node][i] >= 0 && held_[node][i] <= there[i],
              fmt::format("node {} gives more than it has to {}", node, job.job.id));
    }
    require(static_cast<std::int64_t>(placed.gpus.size()) == size[2], "GPUs are missing");
    for (const int gpu : placed.gpus) {
      const std::uint64_t bit = std::uint64_t{1} << gpu;
      require(gpu < there[2] && ((gpus_held_[node] & bit) == 0) == (sign > 0),
              fmt::format("GPU {} of node {} is given twice", gpu, node));
      gpus_held_[node] ^= bit;
    }
  }
}

double QueueSimulation::used_part() const {
  double cores = 0;
  for (const auto& node : nodes_) cores += node.cores;
  QueueTime first = jobs_.front().arrives, last = 0;
  for (const auto& job : jobs_) {
    first = std::min(first, job.arrives);
    last = std::max(last, job.ended);
  }
  return core_time_ / (cores * static_cast<double>(last - first));
}

std::vector<SimulatedJob> random_jobs(const WorldOptions& options, std::uint64_t seed) {
  static const std::vector<jobspec::Size> kSizes = {
      {1, std::uint64_t{1} << 30, 0},  {2, std::uint64_t{4} << 30, 0},
      {4, std::uint64_t{8} << 30, 0},  {0.5, std::uint64_t{1} << 29, 0},
      {8, std::uint64_t{32} << 30, 0}, {16, std::uint64_t{16} << 30, 0},
      {4, std::uint64_t{16} << 30, 1}, {8, std::uint64_t{64} << 30, 2},
  };
  std::mt19937_64 numbers(seed);
  const auto below = [&](int limit) {
    return static_cast<int>(numbers() % static_cast<unsigned>(limit));
  };
  const auto part = [&] { return static_cast<double>(numbers() >> 11) / 9007199254740992.0; };
  std::vector<SimulatedJob> jobs;
  QueueTime time = 0;
  for (int i = 0; i < options.jobs; ++i) {
    SimulatedJob job;
    time += static_cast<QueueTime>(-std::log(1 - part()) * static_cast<double>(options.between));
    job.arrives = time;
    job.job.id = fmt::format("{:06}", i);
    job.job.name = "job-" + job.job.id;
    job.job.user = fmt::format("user{}", std::min(below(options.users), below(options.users)));
    job.job.priority = below(20) == 0 ? 10 : below(4) == 0 ? -5 : 0;
    job.job.instance = kSizes[static_cast<std::size_t>(below(static_cast<int>(kSizes.size())))];
    const int instances =
        std::max(1, static_cast<int>(std::pow(options.most_instances, part() * part() * 1.05)));
    job.job.least = job.job.most = std::min(instances, options.most_instances);
    if (part() < options.elastic) {
      job.job.scales = true;
      job.job.most = job.job.least * 3;
    }
    job.job.max_run = 10000 + below(600) * 1000;
    job.runs =
        part() < options.exact
            ? job.job.max_run
            : 1 + static_cast<QueueTime>(part() * part() * static_cast<double>(job.job.max_run));
    if (part() < options.endless) job.job.max_run = 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace cohort::service
