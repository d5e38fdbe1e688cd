// All-reduce by hand: every rank brings a vector, every rank gets the sum, and the bits are the
// same for any way in which the ranks are started.
//
//   build/bin/allreduce                                    alone
//   build/bin/cohort run -n 4 -- build/bin/allreduce       four ranks
//   build/bin/cohort run -n 4 -- build/bin/allreduce 1000  a thousand numbers each
//   mpirun -n 4 build/bin/allreduce                        under another launcher
#include <cohort/base/error.h>
#include <cohort/base/text.h>
#include <cohort/collective/world.h>
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <span>

namespace {

using cohort::collective::Buffer;
using cohort::collective::Group;
using cohort::collective::ReduceOp;
using cohort::collective::World;

int run(int argc, char** argv) {
  auto count = argc > 1 ? cohort::parse_unsigned(argv[1]) : 1'000'000;
  if (!count || *count == 0)
    throw cohort::InvalidInput(fmt::format("'{}' is not a number of elements", argv[1]),
                               {.advice = "Give a number from 1 on."});

  World world = cohort::collective::join_world(argc, argv);
  if (!world.group) {  // a parameter server or evaluator has no part in this
    world.leave();
    return 0;
  }
  Group& group = *world.group;

  // Memory from the group lies where the other ranks of this host can reach it: nothing is copied.
  Buffer buffer = group.allocate(*count * sizeof(float));
  std::span<float> values = buffer.as<float>();
  std::iota(values.begin(), values.end(), static_cast<float>(group.rank()));

  group.all_reduce(values, {.op = ReduceOp::average});

  // Element i holds the average over ranks r of r + i.
  float expected = static_cast<float>(group.size() - 1) / 2;
  fmt::print("rank {} of {} over {}: element 0 is {} (expected {})\n", group.rank(), group.size(),
             group.backend_name(), values[0], expected);
  std::fflush(stdout);
  world.leave();
  return values[0] == expected ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "allreduce: {}\n", error.what());
    return 1;
  }
}
