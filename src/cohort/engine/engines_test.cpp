// The engines of this machine under the conformance suite, and what is theirs alone.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/text.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/engine_conformance_test.h"
#include "cohort/engine/hosts_engine.h"
#include "cohort/engine/kubernetes/kubernetes_engine.h"
#include "cohort/engine/local_engine.h"
#include "cohort/engine/slurm/slurm_engine.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path built_cohort() {
  const char* folder = std::getenv("COHORT_BIN_DIR");
  return fs::path(folder ? folder : "build/bin") / "cohort";
}

void kill_claimant(const fs::path& folder) {
  const auto words = split(claimed_by({folder}).value_or(""), ' ');
  ASSERT_EQ(words.size(), 4u);
  ::kill(std::stoi(words[2]), SIGKILL);
}

// A remote shell to a host that is this machine under another name, with a home of its own.
std::vector<std::string> one_host(const ScratchFolder& scratch) {
  const fs::path shell = scratch / "remote-shell";
  if (!fs::exists(shell)) {
    write_file_atomically(shell,
                          fmt::format("#!/bin/sh\n[ \"$1\" = elsewhere ] || exit 255\nshift\n"
                                      "HOME={} exec \"$@\"\n",
                                      (scratch / "home").string()),
                          0755);
    fs::create_directories(scratch / "home");
  }
  return {"--hosts", "elsewhere:3", "--remote-shell", shell.string(), "--address", "127.0.0.1"};
}

const EngineUnderTest kLocal{
    .name = "Local",
    .make = [](const ScratchFolder&) { return std::make_unique<LocalEngine>(built_cohort()); },
    .elastic_words = {},
    .kill_supervisor = kill_claimant};

// An elastic job would leave out hosts that cannot reach 127.0.0.1: its host is this machine.
const EngineUnderTest kHosts{.name = "Hosts",
                             .make =
                                 [](const ScratchFolder& scratch) {
                                   return std::make_unique<HostsEngine>(one_host(scratch),
                                                                        built_cohort());
                                 },
                             .elastic_words = {"--hosts", "localhost:3"},
                             .kill_supervisor = kill_claimant};

INSTANTIATE_TEST_SUITE_P(OnThisMachine, EngineConformance, ::testing::Values(kLocal, kHosts),
                         [](const auto& info) { return info.param.name; });

// The process that runs the attempt, on whichever node: all of them are this machine.
void kill_launcher(const fs::path& folder) {
  const auto record = nlohmann::json::parse(read_file(folder / "run/job.json"));
  ::kill(record.at("launcher_pid").get<pid_t>(), SIGKILL);
}

const EngineUnderTest kSlurm{.name = "Slurm",
                             .make =
                                 [](const ScratchFolder&) {
                                   return std::make_unique<SlurmEngine>(SlurmEngine::Options{
                                       .cohort = built_cohort(),
                                       .period = std::chrono::milliseconds(100),
                                       .settle_time = std::chrono::milliseconds(200)});
                                 },
                             .elastic_words = {},
                             .kill_supervisor = kill_launcher};

// The words of `cohort run` that the suite uses.
launch::JobOptions read_suite_words(const jobspec::ResolvedJob& job) {
  launch::JobOptions options;
  const std::vector<std::string>& words = job.run_words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--elastic") continue;
    const std::string value = words.at(i + 1);
    const std::size_t colon = value.find(':');
    if (words[i] == "-n") options.workers = std::stoi(value.substr(colon + 1));
    if (words[i] == "-n" && colon != std::string::npos)
      options.elastic = launch::ElasticOptions{.least = std::stoi(value), .most = options.workers};
    if (words[i] == "--grace") options.grace = std::chrono::seconds(std::stoi(value));
    if (words[i] == "--max-restarts") options.max_restarts = std::stoi(value);
    ++i;
  }
  options.command = job.program;
  launch::settle(options);
  return options;
}

constexpr const char* kKubeconfig = "COHORT_TEST_KUBECONFIG";
constexpr const char* kClaim = "results";

kubernetes::ClusterAccess test_cluster() {
  return kubernetes::read_kubeconfig(std::getenv(kKubeconfig));
}

// No process supervises an attempt there: its Job does, as long as there is one.
void delete_job(const fs::path& folder) {
  const kubernetes::KubeClient client(test_cluster(), nullptr);
  kubernetes::AttemptObjects(client, client.access().name_space,
                             kubernetes::known_attempt_name(folder).value().name)
      .remove(Deadline::after(std::chrono::seconds(30)));
}

const EngineUnderTest kKubernetes{
    .name = "Kubernetes",
    .make =
        [](const ScratchFolder&) {
          return std::make_unique<kubernetes::KubernetesEngine>(
              kubernetes::KubernetesSetup{.access = test_cluster,
                                          .read_words = read_suite_words,
                                          .pods = {.image = "none",
                                                   .cohort = fs::absolute(built_cohort()).string(),
                                                   .output_claim = kClaim}});
        },
    .elastic_words = {},
    .kill_supervisor = delete_job,
    .killed_submits = 10,
    .looks_first = false,
    .see_results =
        [](AttemptRequest& request) {
          const fs::path claims = fs::path(std::getenv(kKubeconfig)).parent_path() / "claims";
          request.output = claims / kClaim / request.job.spec.name;
          request.model = request.output / "model";
        }};

// tests/platform/slurm_cluster.py starts this program where there is a cluster of Slurm,
// tests/platform/kubernetes_server.py where there is an API server of Kubernetes.
std::vector<EngineUnderTest> engines_of_clusters() {
  std::vector<EngineUnderTest> engines;
  if (std::getenv("COHORT_TEST_IN_SLURM") != nullptr) engines.push_back(kSlurm);
  if (std::getenv(kKubeconfig) != nullptr) engines.push_back(kKubernetes);
  return engines;
}

INSTANTIATE_TEST_SUITE_P(OnACluster, EngineConformance, ::testing::ValuesIn(engines_of_clusters()),
                         [](const auto& info) { return info.param.name; });

// With the fixture of the suite, and no part of it.
class LocalAttempts : public EngineConformance {};
INSTANTIATE_TEST_SUITE_P(OnThisMachine, LocalAttempts, ::testing::Values(kLocal));
class HostAttempts : public EngineConformance {};
INSTANTIATE_TEST_SUITE_P(OnThisMachine, HostAttempts, ::testing::Values(kHosts));

TEST_P(LocalAttempts, TheRequestIsNotForOthersToRead) {
  const AttemptRequest request = shell_job("true");
  engine().submit(request);
  EXPECT_EQ(fs::status(AttemptFolder{request.folder}.request()).permissions(), fs::perms(0600));
  wait_for(request, AttemptState::succeeded);
}

TEST_P(LocalAttempts, TheRequestComesBackFromItsJson) {
  AttemptRequest request = shell_job("true");
  request.job.spec.env = {{"TOKEN", "se\"cret\n"}};
  request.gpu_indices = {1, 3};
  request.instances = 2;
  request.resume = true;
  const AttemptRequest again = attempt_from_json(to_json(request), request.folder);
  EXPECT_EQ(to_json(again), to_json(request));
  EXPECT_EQ(again.job.spec, request.job.spec);
  EXPECT_EQ(again.gpu_indices, request.gpu_indices);
  EXPECT_THROW(attempt_from_json("{}", request.folder), InvalidInput);
}

TEST_P(LocalAttempts, OnlyTheGpusThatWereGivenAreSeen) {
  AttemptRequest request = shell_job("echo \"gpus=$CUDA_VISIBLE_DEVICES\"");
  request.gpu_indices = {2, 5};
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  EXPECT_THAT(whole_log(request, "worker:0"), HasSubstr("gpus=2,5\n"));
}

TEST_P(LocalAttempts, ACheckNamesAllThatIsMissing) {
  jobspec::ResolvedJob job;
  job.program = {"/no/such/program"};
  job.spec.inputs = {{"training", "/no/such/data"}};
  const std::string said = message_of<InvalidInput>([&] { engine().check(job, {}); });
  EXPECT_THAT(said, HasSubstr("/no/such/program"));
  EXPECT_THAT(said, HasSubstr("/no/such/data"));
}

bool has_mpirun() { return std::system("command -v mpirun > /dev/null") == 0; }

// Two instances of two ranks each.
AttemptRequest mpi_job(AttemptRequest request) {
  request.job.spec.distribution = jobspec::Distribution::mpi;
  request.job.spec.mpi.processes_per_host = 2;
  request.job.instances = 2;
  request.job.processes = 4;
  request.job.mpirun_words = {"-np", "4"};
  return request;
}

TEST_P(LocalAttempts, ARealMpirunStartsTheRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  const AttemptRequest request = mpi_job(
      shell_job("echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $SM_CURRENT_HOST "
                "launcher ${RANK:-none}"));
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  const AttemptStatus status = engine().observe(request.folder);
  ASSERT_EQ(status.tasks.size(), 5u);
  for (int rank = 0; rank < 4; ++rank) {
    const TaskStatus& task = status.tasks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(task.name, fmt::format("rank:{}", rank));
    EXPECT_EQ(task.state, "succeeded");
    EXPECT_EQ(task.exit_code, 0);
    EXPECT_FALSE(task.host.empty() || task.started.empty() || task.ended.empty());
    EXPECT_EQ(whole_log(request, task.name),
              fmt::format("rank {} of 4 on algo-{} launcher none\n", rank, rank / 2 + 1));
  }
  EXPECT_EQ(status.tasks[4].name, "mpirun:0");
  EXPECT_EQ(whole_log(request, "mpirun:0").find("launcher none"), std::string::npos);
  EXPECT_EQ(read_file(AttemptFolder{request.folder}.host_file()), "localhost slots=4\n");
}

TEST_P(LocalAttempts, TheRankThatFailedIsNamed) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  const AttemptRequest request = mpi_job(shell_job(
      "[ $OMPI_COMM_WORLD_RANK = 1 ] || exec sleep 60; echo ValueError: no data >&2; exit 3"));
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_EQ(status.failure, "rank 1 ended with exit code 3: ValueError: no data")
      << whole_log(request, "mpirun:0");
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.tasks.at(1).state, "failed");
  EXPECT_EQ(status.tasks.at(1).exit_code, 3);
  EXPECT_EQ(status.tasks.at(2).state, "stopped");
}

TEST_P(LocalAttempts, TheLogOfARankGoesOnWhenTheJobIsStartedAgain) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  AttemptRequest request = mpi_job(
      shell_job("[ $OMPI_COMM_WORLD_RANK = 0 ] || exec sleep 0\n"
                "[ -e \"$COHORT_OUTPUT/once\" ] && exec echo again\n"
                "touch \"$COHORT_OUTPUT/once\"; exit 5"));  // it says nothing the first time
  request.job.run_words.insert(request.job.run_words.end(), {"--max-restarts", "1"});
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(status.tasks.at(0).restarts, 1);
  EXPECT_EQ(whole_log(request, "rank:0"), "again\n");
}

TEST_P(LocalAttempts, ARankThatCouldNotTellIsNamedAsMpirunReportsIt) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  const AttemptRequest request = mpi_job(shell_job("echo $PPID; exec sleep 60"));
  engine().submit(request);
  wait_for_log(request, "rank:2", "\n");
  ::kill(std::stoi(engine().read_log(request.folder, "rank:2", 0, 100).bytes), SIGKILL);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_THAT(status.failure, ::testing::MatchesRegex("rank 2 on .* was killed by signal 9"))
      << whole_log(request, "mpirun:0");
}

TEST_P(LocalAttempts, LinesOfRanksThatWriteAtOnceStayWhole) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  const AttemptRequest request = mpi_job(shell_job(
      "for i in 1 2 3; do head -c 9000 /dev/zero | tr '\\0' $OMPI_COMM_WORLD_RANK; echo; done"));
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  for (const char rank : {'0', '1', '2', '3'}) {
    const std::string line = std::string(9000, rank) + "\n";
    EXPECT_EQ(whole_log(request, std::string("rank:") + rank), line + line + line);
  }
}

TEST_P(HostAttempts, TheSourceIsPutOnAHostOnce) {
  const std::string script = "cat \"$0\" > /dev/null; ls -di .";
  const AttemptRequest first = shell_job(script), second = shell_job(script);
  ASSERT_EQ(first.source, second.source);
  engine().submit(first);
  wait_for(first, AttemptState::succeeded);
  engine().submit(second);
  wait_for(second, AttemptState::succeeded);
  EXPECT_EQ(whole_log(first, "worker:0"), whole_log(second, "worker:0"));  // the same folder
  EXPECT_TRUE(fs::is_directory(scratch_ / "home/.cache/cohort/sources" / first.job.spec.source));
}

TEST_P(HostAttempts, MpirunStartsItsRanksOnOtherHosts) {
  if (!has_mpirun()) GTEST_SKIP() << "Open MPI is not installed";
  AttemptRequest request = mpi_job(shell_job(
      "echo rank $OMPI_COMM_WORLD_RANK on $SM_CURRENT_HOST at home in $(basename $HOME)"));
  const fs::path shell = scratch_ / "remote-sh";  // hands its words to a shell, as mpirun expects
  write_file_atomically(
      shell,
      fmt::format("#!/bin/sh\nshift\nHOME={} exec sh -c \"$*\"\n", (scratch_ / "home").string()),
      0755);
  request.job.run_words = {"--workers",      "1",           "--hosts", "elsewhere:4",
                           "--remote-shell", shell.string()};
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(whole_log(request, "rank:3"), "rank 3 on algo-2 at home in home\n");
  EXPECT_EQ(read_file(AttemptFolder{request.folder}.host_file()), "elsewhere slots=4\n");
}

TEST_P(HostAttempts, AHostThatCannotBeReachedIsNamed) {
  AttemptRequest request = shell_job("true");
  auto words = one_host(scratch_);
  words[1] = "elsewhere:1,nowhere:1";
  request.job.run_words = {"-n", "2"};
  request.job.run_words.insert(request.job.run_words.end(), words.begin(), words.end());
  engine().submit(request);
  EXPECT_THAT(wait_for(request, AttemptState::failed).failure,
              HasSubstr("nowhere: it cannot be reached"));
}

TEST(HostsEngineWithoutHosts, RefusesJobsThatNameNone) {
  const HostsEngine engine({}, built_cohort());
  EXPECT_THAT(message_of<InvalidInput>([&] { engine.check({}, {}); }), HasSubstr("needs hosts"));
}

}  // namespace
}  // namespace cohort::engine
