#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "cohort/collective/group.h"

// Groups over a site's MPI, for jobs under mpirun or srun. Built where CMake finds MPI; otherwise
// every call throws InvalidInput that says how to get it.
//
// The same bits as everywhere: MPI moves contributions, Cohort adds them in its one order.
// What MPI does not offer: a killed process ends the whole job (that is MPI's way), and a group
// needs MPI_THREAD_MULTIPLE. Waiting polls, with pauses that grow to 200 us. docs/collectives.md,
// "Over MPI", has the rest.
namespace cohort::collective::mpi {

bool available();

// Starts MPI in this process, with threads, unless that was done; ends it when the last such object
// goes. The object must outlive all groups. Throws Error when MPI refuses threads.
class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const;  // in MPI_COMM_WORLD
  int size() const;

 private:
  bool started_;
};

// The first `size` ranks of MPI_COMM_WORLD, all of them when 0. Collective over all of them; null
// on a rank that is not in it.
std::unique_ptr<Group> make_group(const Runtime& runtime, int size = 0,
                                  std::chrono::milliseconds timeout = std::chrono::minutes(5));

// A process of an MPI job, as World needs it (--transport mpi).
struct Joined {
  std::unique_ptr<Group> group;    // of all ranks of MPI_COMM_WORLD
  std::function<void()> finalize;  // ends MPI after the last use of the group. A process that exits
                                   // without it ends the job: that is how MPI learns of a failure
};
using Join = Joined (*)(int rank, int size, std::chrono::milliseconds timeout);

}  // namespace cohort::collective::mpi

// Starts MPI in this process and makes the group. Throws InvalidInput where MPI's rank and size are
// not the given ones, Error when MPI refuses threads.
//
// Weak, so that libraries can ask for MPI without loading it: null in a program that is not linked
// with Cohort::collective_mpi.
extern "C" [[gnu::weak]] const cohort::collective::mpi::Join cohort_collective_mpi_join;
