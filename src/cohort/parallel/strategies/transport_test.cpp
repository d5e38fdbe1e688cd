#include "cohort/parallel/strategies/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const cluster::Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};

cluster::Role worker_of_two() {
  cluster::Role role;
  role.rank = 0;
  role.size = 2;
  role.dialect = "OpenMPI";
  return role;
}

std::string refusal_of_mpi(StrategyFlags flags, const cluster::Role& role,
                           const cluster::Environment& environment = kMpirun) {
  flags.transport = "mpi";
  return message_of<InvalidInput>([&] { check_transport(flags, role, environment); });
}

TEST(Transport, OurOwnIsNeverRefused) {
  cluster::Role role = worker_of_two();
  role.elastic.emplace();
  check_transport({}, role, {});
}

TEST(Transport, MpiIsRefusedWhereItCannotWork) {
  cluster::Role elastic = worker_of_two();
  elastic.elastic.emplace();
  EXPECT_THAT(refusal_of_mpi({}, elastic),
              AllOf(HasSubstr("--transport is mpi"), HasSubstr("elastic"), HasSubstr("--elastic")));
  EXPECT_THAT(refusal_of_mpi({.distribution_strategy = "parameter_server"}, worker_of_two()),
              HasSubstr("the strategy is parameter_server"));
  cluster::Role launched_for_servers = worker_of_two();
  launched_for_servers.strategy = "ps";
  EXPECT_THAT(refusal_of_mpi({}, launched_for_servers), HasSubstr("parameter_server"));
  cluster::Role evaluator = worker_of_two();
  evaluator.rank = -1;
  evaluator.task = {cluster::TaskType::evaluator, 0};
  EXPECT_THAT(refusal_of_mpi({}, evaluator), HasSubstr("evaluator/0 does not train"));
  EXPECT_THAT(refusal_of_mpi({.num_replicas = 2}, worker_of_two()),
              AllOf(HasSubstr("--num_replicas is 2"), HasSubstr("mpirun -np")));
}

TEST(Transport, MpiIsRefusedInAProcessThatMpirunDidNotStart) {
  cluster::Role launched = worker_of_two();
  launched.dialect = "Cohort";
  EXPECT_THAT(refusal_of_mpi({}, launched, {}),
              AllOf(HasSubstr("neither mpirun nor srun started this process"),
                    HasSubstr("mpirun -np N PROGRAM --transport mpi")));
}

TEST(Transport, MpiIsRefusedInAProgramThatDoesNotLinkIt) {  // as this one
  EXPECT_THAT(refusal_of_mpi({}, worker_of_two()), HasSubstr("Cohort::collective_mpi"));
}

}  // namespace
}  // namespace cohort::parallel
