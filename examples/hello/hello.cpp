// The smallest Cohort program: finds its role, meets the others, adds up a number with them.
//
//   build/bin/hello                                  alone
//   build/bin/cohort run -n 2 -- build/bin/hello     two workers
//   build/bin/cohort run -n 4 --ps 1 -- build/bin/hello
//   mpirun -n 2 build/bin/hello                      two workers, under another launcher
#include <cohort/base/error.h>
#include <cohort/cluster/session/session.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <exception>

namespace {

using cohort::Deadline;
using cohort::cluster::Environment;
using cohort::cluster::Session;
using cohort::cluster::SessionOptions;

int run(int argc, char** argv) {
  auto environment = Environment::of_this_process();
  auto role = cohort::cluster::discover_role(environment, {argv + 1, argv + argc});
  auto session = Session::join(role, SessionOptions::from(environment));
  auto deadline = Deadline::after(std::chrono::minutes(1));

  if (!role.is_training()) {
    fmt::print("{} serves until the workers are done\n", to_string(role.task));
    std::fflush(stdout);
    session->serve_until_done(deadline);
    fmt::print("{} saw every worker leave\n", to_string(role.task));
    return 0;
  }

  fmt::print("hello from {}: rank {} of {}{}\n", to_string(role.task), role.rank, role.size,
             role.is_chief() ? ", the chief" : "");
  std::int64_t mine = role.rank + 1;
  std::int64_t sum = mine;
  if (!session->is_alone()) {
    session->store().add(session->key("sum"), mine, deadline);
    session->barrier("added", deadline);
    sum = session->store().add(session->key("sum"), 0, deadline);
  }
  fmt::print("the sum of 1 to {} is {}\n", role.size, sum);
  session->done(deadline);
  session->close(deadline);
  return sum == std::int64_t{role.size} * (role.size + 1) / 2 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "hello: {}\n", error.what());
    return 1;
  }
}
