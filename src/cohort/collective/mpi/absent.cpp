#include "cohort/base/error.h"
#include "cohort/collective/mpi/mpi.h"

namespace cohort::collective::mpi {

namespace {

[[noreturn]] void refuse() {
  throw InvalidInput("this Cohort was built without MPI",
                     {.advice = "Install OpenMPI (apt-get install libopenmpi-dev openmpi-bin) and "
                                "build again."});
}

}  // namespace

bool available() { return false; }
Runtime::Runtime() : started_(false) { refuse(); }
Runtime::~Runtime() = default;
int Runtime::rank() const { refuse(); }
int Runtime::size() const { refuse(); }
std::unique_ptr<Group> make_group(const Runtime&, int, std::chrono::milliseconds) { refuse(); }

}  // namespace cohort::collective::mpi

const cohort::collective::mpi::Join cohort_collective_mpi_join =
    [](int, int, std::chrono::milliseconds) -> cohort::collective::mpi::Joined {
  cohort::collective::mpi::refuse();
};
