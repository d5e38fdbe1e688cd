// The conformance suite over the mpi backend: mpirun starts it on as many ranks as the largest
// group needs; every process runs every test, those outside a test's group wait at its end.
#include <gtest/gtest.h>

#include <cstdio>

#include "mpi_runtime.h"
#include "spawn.h"

namespace cohort::collective::testing {

namespace {

const mpi::Runtime* the_runtime = nullptr;  // of main()

void spawn_mpi(int size, std::chrono::milliseconds timeout, const Body& body) {
  try {
    if (const auto group = mpi::make_group(runtime(), size, timeout)) body(*group);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << runtime().rank() << ": " << error.what();
  }
}

// What ranks other than 0 print: failures only.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "MPI rank %d, %s: %s\n", runtime().rank(),
                 info != nullptr ? info->name() : "", result.summary());
  }
};

}  // namespace

const mpi::Runtime& runtime() { return *the_runtime; }

void print_failures_only() {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter);
}

std::ostream& operator<<(std::ostream& out, const Factory& factory) { return out << factory.name; }
std::vector<Factory> all_factories() { return {{"mpi", spawn_mpi}}; }

}  // namespace cohort::collective::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!cohort::collective::mpi::available()) return 77;
  const cohort::collective::mpi::Runtime runtime;
  cohort::collective::testing::the_runtime = &runtime;
  if (runtime.rank() != 0) cohort::collective::testing::print_failures_only();
  return RUN_ALL_TESTS();
}
