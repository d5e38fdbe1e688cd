// Tasks that know their ranks only, as mpirun, srun and torchrun tell them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"
#include "cohort/cluster/session/session.h"

namespace cohort::cluster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Environment open_mpi(int rank, int size, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank % local_size)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"PMIX_NAMESPACE", "428998657"}};
}

SessionOptions options_in(const ScratchFolder& folder, std::chrono::milliseconds timeout) {
  return {.timeout = timeout, .secret = {}, .meeting_folder = {}, .runtime_folder = folder.path()};
}

std::unique_ptr<Session> join(const Environment& environment, const SessionOptions& options) {
  return Session::join(discover_role(environment, {}), options);
}

// Runs a whole job and returns the sum of its ranks as each saw it.
std::vector<std::int64_t> run_job(int size, const std::function<Environment(int)>& environment,
                                  const SessionOptions& options) {
  std::vector<std::future<std::int64_t>> tasks;
  for (int rank = size - 1; rank >= 0; --rank)
    tasks.push_back(std::async(std::launch::async, [=] {
      auto session = join(environment(rank), options);
      EXPECT_TRUE(session->secret());
      EXPECT_EQ(session->hosts_store(), rank == 0);
      session->store().add(session->key("sum"), rank, soon());
      session->barrier("added", soon());
      const std::int64_t sum = session->store().add(session->key("sum"), 0, soon());
      session->done(soon());
      session->close(soon());
      return sum;
    }));
  std::vector<std::int64_t> sums;
  for (auto& task : tasks) sums.push_back(task.get());
  return sums;
}

TEST(SessionMeeting, OnOneHostTasksMeetByANoteAndGetASecret) {
  ScratchFolder folder;
  for (int job = 0; job < 2; ++job)  // the second finds nothing of the first
    EXPECT_EQ(run_job(
                  3, [](int rank) { return open_mpi(rank, 3, 3); },
                  options_in(folder, std::chrono::seconds(20))),
              std::vector<std::int64_t>(3, 3));
  EXPECT_TRUE(fs::is_empty(folder.path() / "cohort"));
}

TEST(SessionMeeting, TheNoteOfAKilledJobOfTheSameNameDoesNotConfuse) {
  ScratchFolder folder;
  fs::create_directory(folder.path() / "cohort");
  // Its host cannot be asked, its port may be another process's.
  std::ofstream(folder.path() / "cohort/OpenMPI-428998657-1.note")
      << "store 127.0.0.1:1\nprocess other pid:[1] 2 3\nsecret gone.secret\n";
  EXPECT_EQ(run_job(
                2, [](int rank) { return open_mpi(rank, 2, 2); },
                options_in(folder, std::chrono::seconds(20))),
            std::vector<std::int64_t>(2, 1));
}

TEST(SessionMeeting, AcrossHostsAFolderThatTheyShareServes) {
  ScratchFolder folder;
  SessionOptions options = options_in(folder, std::chrono::seconds(20));
  options.meeting_folder = folder.path() / "shared";
  EXPECT_EQ(run_job(
                2, [](int rank) { return open_mpi(rank, 2, 1); }, options),
            std::vector<std::int64_t>(2, 1));
}

TEST(SessionMeeting, AcrossHostsWithAMasterTheStoreIsAtTheNextPort) {
  // Two ports in a row that are not used.
  int port = 0;
  while (port == 0) {
    const StoreServer probe;
    port = probe.address().port < 65535 ? probe.address().port : 0;
    try {
      if (port != 0) listen_on(Endpoint::tcp("127.0.0.1", port + 1));
    } catch (const SystemError&) {
      port = 0;
    }
  }
  ScratchFolder folder;
  SessionOptions options = options_in(folder, std::chrono::seconds(20));
  options.secret = Secret::generate();
  const auto environment = [&](int rank) {
    Environment result = open_mpi(rank, 2, 1);
    result["MASTER_ADDR"] = "127.0.0.1";
    result["MASTER_PORT"] = std::to_string(port);
    return result;
  };
  EXPECT_EQ(run_job(2, environment, options), std::vector<std::int64_t>(2, 1));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SessionMeeting, AcrossHostsWithoutAMeetingFolderASentenceSaysWhatToSet) {
  ScratchFolder folder;
  const std::string text = message_of<InvalidInput>(
      [&] { join(open_mpi(1, 4, 2), options_in(folder, std::chrono::seconds(1))); });
  EXPECT_THAT(text, AllOf(HasSubstr("OpenMPI"), HasSubstr("4 tasks"), HasSubstr("COHORT_MEET"),
                          HasSubstr("MASTER_ADDR"), HasSubstr("COHORT_STORE")));
}

TEST(SessionMeeting, TasksOfSrunOnSeveralNodesMeetInTheHomeFolder) {
  ScratchFolder folder;
  SessionOptions options{
      .timeout = std::chrono::seconds(20), .secret = {}, .home_folder = folder.path()};
  const auto srun = [](int rank) {
    return Environment{{"SLURM_JOB_ID", "7"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", std::to_string(rank)},
                       {"SLURM_NTASKS", "3"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", std::to_string(rank)},
                       {"SLURM_STEP_NODELIST", "n[1-3]"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}};
  };
  EXPECT_EQ(run_job(3, srun, options), std::vector<std::int64_t>(3, 3));
  EXPECT_TRUE(fs::is_empty(folder / ".cache/cohort"));
  options.home_folder.clear();
  EXPECT_THAT(message_of<InvalidInput>([&] { join(srun(1), options); }), HasSubstr("COHORT_MEET"));
}

TEST(SessionMeeting, AcrossHostsAMasterWithoutASecretIsRefused) {
  ScratchFolder folder;
  Environment environment = open_mpi(1, 2, 1);
  environment["MASTER_ADDR"] = "192.0.2.1";
  environment["MASTER_PORT"] = "4000";
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { join(environment, options_in(folder, std::chrono::seconds(1))); }),
              AllOf(HasSubstr("192.0.2.1:4001"), HasSubstr("COHORT_SECRET_FILE")));
}

TEST(SessionMeeting, ATaskThatWaitsInVainSaysForWhomAndWhere) {
  ScratchFolder folder;
  const std::string text = message_of<TimeoutError>(
      [&] { join(open_mpi(1, 2, 2), options_in(folder, std::chrono::milliseconds(150))); });
  EXPECT_THAT(text, AllOf(HasSubstr("worker/1 did not find worker/0"), HasSubstr("428998657"),
                          HasSubstr(folder.path().string())));
}

TEST(SessionMeeting, ATaskWithAnotherIdeaOfTheSecretIsTold) {
  ScratchFolder folder;
  const SessionOptions options = options_in(folder, std::chrono::seconds(20));
  const auto host = join(open_mpi(0, 2, 2), options);
  SessionOptions own = options;
  own.secret = Secret::generate();
  EXPECT_THAT(message_of<InvalidInput>([&] { join(open_mpi(1, 2, 2), own); }),
              AllOf(HasSubstr("worker/0 has no secret"), HasSubstr("worker/1 has one")));
}

TEST(SessionMeeting, TasksThatCountTheJobDifferentlyAreTold) {
  ScratchFolder folder;
  const SessionOptions options = options_in(folder, std::chrono::seconds(20));
  const auto host = join(open_mpi(0, 3, 3), options);
  EXPECT_THAT(message_of<InvalidInput>([&] { join(open_mpi(1, 2, 2), options); }),
              AllOf(HasSubstr("2 ranks"), HasSubstr("3 ranks")));
}

}  // namespace
}  // namespace cohort::cluster
