// The conformance suite over the mpi backend: mpirun starts it on as many ranks as the largest
// group needs; every process runs every test, those outside a test's group wait at its end.
#include <gtest/gtest.h>

#include "cohort/collective/mpi/mpi.h"
#include "spawn.h"

namespace cohort::collective::testing {

namespace {

const mpi::Runtime* runtime = nullptr;  // of main()

void spawn_mpi(int size, std::chrono::milliseconds timeout, const Body& body) {
  try {
    if (const auto group = mpi::make_group(*runtime, size, timeout)) body(*group);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << runtime->rank() << ": " << error.what();
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Factory& factory) { return out << factory.name; }
std::vector<Factory> all_factories() { return {{"mpi", spawn_mpi}}; }

}  // namespace cohort::collective::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!cohort::collective::mpi::available()) return 77;
  const cohort::collective::mpi::Runtime runtime;
  cohort::collective::testing::runtime = &runtime;
  if (runtime.rank() != 0)
    delete ::testing::UnitTest::GetInstance()->listeners().Release(
        ::testing::UnitTest::GetInstance()->listeners().default_result_printer());
  return RUN_ALL_TESTS();
}
