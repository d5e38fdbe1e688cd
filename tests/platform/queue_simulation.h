#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cohort/service/queue/queue.h"

namespace cohort::service {

struct SimulatedJob {
  QueueJob job;
  QueueTime arrives = 0;
  QueueTime runs = 0;  // how long; at most max_run
  QueueTime begun = -1;
  QueueTime ended = -1;
  std::vector<Placed> placement;  // while it runs
  int asked = 0;                  // instances, by the last scale
};

// Jobs that come, run as the queue decides, and end; every decision is carried out and checked:
// nothing is given twice, gangs are whole, elastic jobs stay within their range. A broken rule
// throws std::logic_error.
class QueueSimulation {
 public:
  QueueSimulation(std::vector<jobspec::Size> nodes, std::vector<SimulatedJob> jobs);

  // Until all jobs have ended, or no event is left. `after` is called after each decision.
  void run(const std::function<void(QueueTime)>& after = {});

  const std::vector<SimulatedJob>& jobs() const { return jobs_; }
  Queue& queue() { return queue_; }
  std::size_t decisions() const { return decisions_; }
  std::size_t grown() const { return grown_; }
  std::size_t given_back() const { return given_back_; }
  // Of all cores, held from the first arrival to the last end.
  double used_part() const;

 private:
  enum class What { arrives, ends, returned };
  struct Event {
    QueueTime at;
    std::uint64_t number;  // of equal times: the order in which they were made
    What what;
    std::size_t job;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void put(QueueTime at, What what, std::size_t job);
  void happen(const Event& event);
  void carry_out(const Decision& decision, QueueTime now);
  void hold(const SimulatedJob& job, const std::vector<Placed>& placement, int sign);

  std::vector<jobspec::Size> nodes_;
  std::vector<SimulatedJob> jobs_;
  std::map<std::string, std::size_t, std::less<>> by_id_;
  Queue queue_;
  std::vector<Event> events_;  // a heap
  std::uint64_t made_ = 0;
  std::vector<Amount> held_;
  std::vector<std::uint64_t> gpus_held_;
  std::size_t decisions_ = 0;
  std::size_t grown_ = 0;
  std::size_t given_back_ = 0;
  double core_time_ = 0;
};

// What the two random worlds of tests and benchmark are made of.
struct WorldOptions {
  int jobs = 10000;
  int users = 40;
  int most_instances = 32;
  double endless = 0.1;   // the part of jobs without max_run
  double elastic = 0.1;   // the part of elastic jobs
  double exact = 0;       // the part of jobs that run as long as max_run says
  QueueTime between = 0;  // mean time between arrivals, milliseconds
};

std::vector<SimulatedJob> random_jobs(const WorldOptions& options, std::uint64_t seed);

}  // namespace cohort::service
