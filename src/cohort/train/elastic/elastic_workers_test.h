#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/membership/group/elastic_membership.h"
#include "cohort/membership/service/elastic_job_test.h"
#include "cohort/parallel/strategies/context.h"

namespace cohort::elastic::testing {

// A worker's own end: it gives up its Context without a word, as a killed process does, and the
// coordinator is told, as the launcher tells it.
struct Killed {};

// For tests: an elastic job whose workers are threads of this process, with a store, a real
// coordinator and an output folder.
class ElasticWorkers {
 public:
  explicit ElasticWorkers(int initial, int most) : most_(most), job_(options(initial, most)) {}

  // Starts worker `index`. When its body throws Killed, `again`, if there is one, takes its place.
  // From any thread.
  using Body = std::function<void(Context&)>;
  void start(int index, Body body, Body again = {}, int incarnation = 0) {
    const std::scoped_lock lock(mutex_);
    threads_.emplace_back(
        [this, index, incarnation, body = std::move(body), again = std::move(again)] {
          const auto name = fmt::format("worker/{}.{}", index, incarnation);
          try {
            Context context = init(environment(index, incarnation), {});
            body(context);
            context.leave();
            note(name, "");
          } catch (const Killed&) {
            note(name, "killed");
            job_.service().lost(fmt::format("worker/{}", index), incarnation, "killed by the test");
            if (again) start(index, again, {}, incarnation + 1);
          } catch (const membership::Dismissed&) {
            note(name, "dismissed");
          } catch (const std::exception& error) {
            note(name, error.what());
          }
        });
  }

  // How each worker ended, by "worker/INDEX.INCARNATION", once all have; empty: well.
  std::map<std::string, std::string> wait() {
    std::unique_lock lock(mutex_);
    while (!threads_.empty()) {
      std::jthread next = std::move(threads_.front());
      threads_.pop_front();
      lock.unlock();
      next.join();
      lock.lock();
    }
    return endings_;
  }

  membership::ElasticJob& job() { return job_; }
  std::filesystem::path folder() const { return folder_.path(); }

  // Of a worker that trains: returns when this other one is in its view, or waits to be let in and
  // this worker has been told so; at the latest after 20 seconds.
  static void await_newcomer(Context& context, const std::string& task, int incarnation) {
    membership::ElasticMembership& membership = *context.elastic();
    const Deadline deadline = membership::soon();
    while (!deadline.expired()) {
      if (membership.agent().planned_change() > 0) return;
      for (const membership::ViewMember& member : membership.view().members)
        if (member.info.task == task && member.info.incarnation == incarnation) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // between two looks
    }
    ADD_FAILURE() << task << " did not come";
  }

 private:
  static membership::CoordinatorOptions options(int initial, int most) {
    membership::CoordinatorOptions options;
    options.least = 1;
    options.most = most;
    options.initial = initial;
    options.member_patience = std::chrono::seconds(20);
    return options;
  }
  cluster::Environment environment(int index, int incarnation) const {
    return {{"COHORT_TASK_TYPE", "worker"},
            {"COHORT_TASK_INDEX", std::to_string(index)},
            {"COHORT_RANK", std::to_string(index)},
            {"COHORT_SIZE", std::to_string(most_)},
            {"COHORT_LOCAL_RANK", std::to_string(index)},
            {"COHORT_LOCAL_SIZE", std::to_string(most_)},
            {"COHORT_STORE", to_string(job_.store())},
            {"COHORT_JOB", "test"},
            {"COHORT_OUTPUT", folder_.path().string()},
            {"COHORT_ELASTIC", fmt::format("1:{}", most_)},
            {"COHORT_INCARNATION", std::to_string(incarnation)}};
  }
  void note(const std::string& name, const std::string& ending) {
    const std::scoped_lock lock(mutex_);
    endings_[name] = ending;
  }

  int most_;
  ScratchFolder folder_;
  membership::ElasticJob job_;
  std::mutex mutex_;
  std::map<std::string, std::string> endings_;
  std::list<std::jthread> threads_;
};

}  // namespace cohort::elastic::testing
