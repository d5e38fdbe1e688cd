// What the dialects that tell ranks have in common: each test runs for each of them.
#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/horovod_env.h"
#include "cohort/cluster/dialects/launcher_variables_test.h"
#include "cohort/cluster/dialects/mpi_env.h"
#include "cohort/cluster/dialects/sample_roles_test.h"
#include "cohort/cluster/dialects/slurm_env.h"
#include "cohort/cluster/dialects/torchrun_env.h"

namespace cohort::cluster {
namespace {

struct Dialect {
  std::string name;  // Role::dialect
  std::string rank, size, local_rank;
  std::optional<Role> (*read)(const Environment&);
  void (*write)(const Role&, Environment&);
};
std::ostream& operator<<(std::ostream& out, const Dialect& dialect) { return out << dialect.name; }

const Dialect kDialects[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", read_torchrun_env, write_torchrun_env},
    {"Horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", read_horovod_env,
     write_horovod_env},
    {"OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     read_mpi_env, write_openmpi_env},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", read_slurm_env, write_slurm_env}};

class RankDialect : public testing::TestWithParam<Dialect> {
 protected:
  void expect_refused(const Environment& environment, std::initializer_list<std::string> parts) {
    for (const std::string& part : parts)
      expect_invalid([&] { GetParam().read(environment); }, {part.c_str()});
  }
};
INSTANTIATE_TEST_SUITE_P(All, RankDialect, testing::ValuesIn(kDialects),
                         [](const auto& info) { return info.param.name; });

TEST_P(RankDialect, AnEnvironmentWithoutItTellsNothing) {
  EXPECT_FALSE(GetParam().read({{"HOME", "/root"}, {GetParam().rank, " "}}));
}

TEST_P(RankDialect, TheRanksSurviveTheRoundTrip) {
  for (const TaskId& task : two_hosts().training_tasks()) {
    const Role role = role_in(two_hosts(), task);
    Environment environment;
    GetParam().write(role, environment);
    const Role read = *GetParam().read(environment);
    EXPECT_EQ(read.dialect, GetParam().name);
    EXPECT_EQ(read.task, (TaskId{TaskType::worker, role.rank}));
    EXPECT_EQ(read.rank, role.rank);
    EXPECT_EQ(read.size, role.size);
    EXPECT_EQ(read.local_rank, role.local_rank);
    EXPECT_EQ(read.local_size, role.local_size);
    EXPECT_EQ(read.cross_rank, role.cross_rank);
    EXPECT_EQ(read.cross_size, role.cross_size);
    EXPECT_TRUE(read.cluster.empty());
  }
}

TEST_P(RankDialect, ATaskThatDoesNotTrainLosesInheritedRanks) {
  for (const TaskId& task : {TaskId{TaskType::ps, 0}, TaskId{TaskType::evaluator, 0}}) {
    Environment environment = {{GetParam().rank, "0"}, {GetParam().local_rank, "0"}, {"HOME", "/"}};
    GetParam().write(role_in(two_hosts(), task), environment);
    EXPECT_EQ(environment, (Environment{{"HOME", "/"}}));
  }
}

TEST_P(RankDialect, RefusesWhatIsInvalidByName) {
  const std::string& rank = GetParam().rank;
  const std::string& size = GetParam().size;
  expect_refused({{rank, "4"}, {size, "4"}}, {rank + "=4 is not below " + size + "=4"});
  expect_refused({{rank, "-1"}, {size, "4"}}, {rank + "=-1"});
  expect_refused({{rank, "zero"}, {size, "4"}}, {rank + "=zero"});
  expect_refused({{rank, "0"}, {size, "0"}}, {size + "=0"});
  expect_refused({{rank, "2147483647"}, {size, "2147483647"}}, {rank + "=2147483647"});
}

}  // namespace
}  // namespace cohort::cluster
