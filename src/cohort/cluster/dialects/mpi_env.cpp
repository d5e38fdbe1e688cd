#include "cohort/cluster/dialects/mpi_env.h"

#include "cohort/base/error.h"
#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/dialects/torchrun_env.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr RankVariables kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr RankVariables kPmi = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr RankVariables kPmix = {"PMIX_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

Role read(const Environment& environment, const RankVariables& names, const char* dialect) {
  Role role;
  role.dialect = dialect;
  role.master = read_master(environment);
  read_ranks(environment, names, Placement::one_task_a_host, role);
  return role;
}

}  // namespace

std::optional<Role> read_mpi_env(const Environment& environment) {
  if (has_ranks(environment, kOpenMpi)) return read(environment, kOpenMpi, "OpenMPI");
  bool has_pmix = read_text(environment, kPmix.rank).has_value();
  if (!has_pmix && !has_ranks(environment, kPmi)) return std::nullopt;
  bool slurm_says_more =
      read_text(environment, "SLURM_PROCID") && !read_text(environment, kPmi.local_rank);
  if (slurm_says_more) return std::nullopt;
  if (has_ranks(environment, kPmi) && (!has_pmix || read_text(environment, kPmi.rank)))
    return read(environment, kPmi, "PMI");
  if (!read_text(environment, kPmix.size))
    throw InvalidInput(
        fmt::format("PMIX_RANK={} is set, but no variable says how many processes there are",
                    *read_text(environment, kPmix.rank)),
        {.advice = "Set RANK and WORLD_SIZE too, or unset PMIX_RANK."});
  return read(environment, kPmix, "PMIx");
}

void erase_mpi_env(Environment& environment) {
  for (const RankVariables& names : {kOpenMpi, kPmi, kPmix}) erase_ranks(names, environment);
}

}  // namespace cohort::cluster
