// A worker that adds numbers with the others until one of them fails. See root_cause_test.py.
// usage: failing_program HOW RANK STEP
//   own        throws a Cohort error; main() is run_main()
//   plain      throws std::runtime_error out of main(), which catches nothing in any worker
//   caught     throws std::runtime_error; main() catches all in its own way, and says little
//   wrapped    throws std::runtime_error; the others throw what they lost as an error of their own
//   torch      throws what LibTorch would, a stack of native frames included
//   kill       dies of SIGKILL
//   segfault   dies of SIGSEGV
//   abort      calls abort()
//   early      returns 0 from main() without leave()
//   left       leaves in order and returns 0
//   exits      calls _exit(0)
//   slow       throws, and takes a second to come down
//   ends       does not fail: every rank leaves in order at that step
//   barrier    as early, while the others wait in a barrier of the session
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/process/run_main.h"
#include "cohort/collective/world.h"

namespace {

using namespace cohort;

// What the failing rank does; true when it goes without a word.
bool fail(const std::string& how, collective::World& world) {
  if (how == "own") throw InvalidInput("sample 30 is broken", {.advice = "Mend it."});
  if (how == "torch")
    throw std::runtime_error(
        "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)\nException raised from mm at "
        "Blas.cpp:12 (most recent call first):\nframe #0: c10::Error::Error() (0x7f)\nframe #1: "
        "main (0x7e)\n");
  if (how == "kill") ::raise(SIGKILL);
  if (how == "segfault") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report and exit
    ::raise(SIGSEGV);
  }
  if (how == "abort") std::abort();
  if (how == "exits") ::_exit(0);
  if (how == "left") world.leave();
  if (how == "left" || how == "early" || how == "barrier") return true;
  throw std::runtime_error("sample 30 is broken");
}

// Takes a while to be destroyed.
struct Slow {
  ~Slow() {
    if (slow) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  bool slow = false;
};

int run(int argc, char** argv) {
  const std::string how = argv[1];
  const int rank = std::atoi(argv[2]);
  const int step = std::atoi(argv[3]);
  Slow slow;
  collective::World world = collective::join_world(argc, argv);
  std::vector<float> data(1000, 1);
  for (int i = 0;; ++i) {
    if (how == "ends" && i == step) {
      fmt::print("rank {} of {} has {}\n", world.group->rank(), world.group->size(), data[0]);
      world.leave();
      return 0;
    }
    if (world.group->rank() == rank && i == step) {
      if (i % 2 == 0)
        fmt::print("step {} is the last\n", i);
      else
        std::cout << "step " << i << " is the last\n";
      slow.slow = how == "slow";
      if (fail(how, world)) return 0;
    }
    if (how == "barrier")
      world.session->barrier(fmt::format("step {}", i), Deadline::after(std::chrono::minutes(1)));
    try {
      world.group->all_reduce(std::span(data), {.op = collective::ReduceOp::average});
    } catch (const Error&) {
      if (how != "wrapped") throw;
      throw std::runtime_error("the training cannot go on");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string how = argv[1];
  if (how == "plain") return run(argc, argv);
  if (how != "caught") return run_main("failing_program", [&] { return run(argc, argv); });
  try {
    return run(argc, argv);
  } catch (const std::exception&) {
    std::fputs("the program failed\n", stderr);
    return 1;
  }
}
