#include <mpi.h>

#include "cohort/base/error.h"
#include "cohort/collective/backend/solo.h"
#include "cohort/collective/mpi/backend.h"
#include "cohort/collective/mpi/mpi.h"

namespace cohort::collective::mpi {

namespace {

// False where MPI was started before.
bool start_mpi() {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0)
    MPI_Query_thread(&level);
  else
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (level < MPI_THREAD_MULTIPLE)
    throw Error("this MPI does not serve several threads of a process",
                {.advice = "Start MPI with MPI_Init_thread(MPI_THREAD_MULTIPLE)."});
  return initialized == 0;
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Group> group_of(MPI_Comm comm, int size, std::chrono::milliseconds timeout) {
  if (size == 1) return std::make_unique<Group>(make_solo_backend(), timeout);
  return std::make_unique<Group>(std::make_shared<MpiBackend>(comm), timeout);
}

Joined join_job(int rank, int size, std::chrono::milliseconds timeout) {
  const bool started = start_mpi();
  if (world_rank() != rank || world_size() != size)
    throw InvalidInput(
        fmt::format("--transport is mpi, but MPI counts this process as rank {} of {}, and the job "
                    "as rank {} of {}",
                    world_rank(), world_size(), rank, size),
        {.advice = "Start all workers with one mpirun of the MPI that Cohort was built with, and "
                   "without variables of other launchers."});
  MPI_Comm comm;
  if (MPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS) throw Error("MPI made no communicator");
  return {group_of(comm, size, timeout), [started] {
            if (started) MPI_Finalize();
          }};
}

}  // namespace

bool available() { return true; }

Runtime::Runtime() : started_(start_mpi()) {}

Runtime::~Runtime() {
  if (started_) MPI_Finalize();
}

int Runtime::rank() const { return world_rank(); }
int Runtime::size() const { return world_size(); }

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
  return group_of(comm, size, timeout);
}

}  // namespace cohort::collective::mpi

const cohort::collective::mpi::Join cohort_collective_mpi_join = cohort::collective::mpi::join_job;
