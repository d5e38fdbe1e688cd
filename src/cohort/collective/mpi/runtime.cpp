#include <mpi.h>

#include "cohort/base/error.h"
#include "cohort/collective/mpi/backend.h"
#include "cohort/collective/mpi/mpi.h"
#include "cohort/collective/solo.h"

namespace cohort::collective::mpi {

bool available() { return true; }

Runtime::Runtime() {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    started_ = true;
  }
  if (level < MPI_THREAD_MULTIPLE)
    throw Error("this MPI does not serve several threads of a process",
                {.advice = "Start MPI with MPI_Init_thread(MPI_THREAD_MULTIPLE)."});
}

Runtime::~Runtime() {
  if (started_) MPI_Finalize();
}

int Runtime::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int Runtime::size() const {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Group> make_group(const Runtime& runtime, int size,
                                  std::chrono::milliseconds timeout) {
  if (size > runtime.size())
    throw InvalidInput(fmt::format("a group of {} ranks, but MPI started {}", size, runtime.size()),
                       {.advice = "Start more with mpirun -np."});
  if (size == 0) size = runtime.size();
  const bool is_member = runtime.rank() < size;
  MPI_Comm comm;
  if (MPI_Comm_split(MPI_COMM_WORLD, is_member ? 0 : MPI_UNDEFINED, runtime.rank(), &comm) !=
      MPI_SUCCESS)
    throw Error("MPI made no communicator");
  if (!is_member) return nullptr;
  if (size == 1) return std::make_unique<Group>(make_solo_backend(), timeout);
  return std::make_unique<Group>(std::make_shared<MpiBackend>(comm), timeout);
}

}  // namespace cohort::collective::mpi
