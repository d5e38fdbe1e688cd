#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cohort/cluster/store/store_server.h"
#include "cohort/parallel/strategies/context.h"

namespace cohort::parallel {

// A job whose workers are threads of this process that meet in a store, as processes do.
class WorkerThreads {
 public:
  // Runs `body` for each of `workers` workers; returns what each threw ("" for nothing).
  std::vector<std::string> run(int workers, const std::vector<std::string>& arguments,
                               const std::function<void(Context&)>& body) {
    std::vector<std::string> errors(static_cast<std::size_t>(workers));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Context context = init(environment(rank, workers), arguments);
          body(context);
          context.leave();
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    threads.clear();
    return errors;
  }

  cluster::Environment environment(int rank, int size) const {
    return {
        {"COHORT_RANK", std::to_string(rank)},         {"COHORT_SIZE", std::to_string(size)},
        {"COHORT_LOCAL_RANK", std::to_string(rank)},   {"COHORT_LOCAL_SIZE", std::to_string(size)},
        {"COHORT_STORE", to_string(store_.address())}, {"COHORT_JOB", "test"}};
  }

 private:
  cluster::StoreServer store_;
};

}  // namespace cohort::parallel
