// Trains through the service from a C++ program: submits a job, shows its log, and reads what it left.
//
//   build/bin/estimator_cpp build/bin/hello            two instances of a program of this tree
//   build/bin/estimator_cpp python3 train.py           or of any other
//
// The service is this user's own, started when it does not run; COHORT_SERVICE names a shared one.
#include <cohort/base/error.h>
#include <cohort/base/process/run_main.h>
#include <cohort/sdk/estimator.h>
#include <fmt/core.h>

#include <filesystem>

int main(int argc, char** argv) {
  return cohort::run_main("estimator_cpp", [&] {
    if (argc < 2)
      throw cohort::InvalidInput("no program to train with",
                                 {.advice = "As in: estimator_cpp ./train --epochs 3"});
    cohort::sdk::Estimator estimator({
        .program = {argv + 1, argv + argc},
        .instance_count = 2,
        .metric_definitions = {{.name = "loss", .regex = "loss[:=] *([0-9.eE+-]+)"}},
        .tags = {{"example", "estimator_cpp"}},
    });
    estimator.fit();  // throws the root cause when the job fails

    const cohort::sdk::Job job = estimator.status();
    fmt::print("job {} {} with exit code {}\n", job.id, job.state, job.exit_code.value_or(-1));
    for (const auto& metric : estimator.metrics())
      fmt::print("{} at step {}: {}\n", metric.name, metric.step, metric.value);
    return 0;
  });
}
