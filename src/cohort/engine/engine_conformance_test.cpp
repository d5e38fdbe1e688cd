#include "cohort/engine/engine_conformance_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/jobspec/source/source_package.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kLook{10};

Deadline patience() { return Deadline::after(std::chrono::seconds(kSanitized ? 120 : 40)); }

int lines_of(const fs::path& path) {
  const std::string text = fs::exists(path) ? read_file(path) : "";
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// Submits in a process of its own, which is killed after `life`.
void submit_and_die(const EngineUnderTest& kind, const ScratchFolder& scratch,
                    const AttemptRequest& request, std::chrono::microseconds life) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      kind.make(scratch)->submit(request);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::this_thread::sleep_for(life);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "submit() failed";
}

const std::string kCountRuns = "echo run >> \"$COHORT_OUTPUT/runs\"";

}  // namespace

void EngineConformance::SetUp() {
  if (const std::string why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
  engine_ = GetParam().make(scratch_);
}

EngineConformance::~EngineConformance() {
  for (const AttemptRequest& request : requests_) {
    const AttemptStatus status = engine_->observe(request.folder);
    if (status.state == AttemptState::unknown || has_ended(status.state)) continue;
    engine_->stop(request.folder);
    const auto deadline = patience();
    while (!deadline.expired() && !has_ended(engine_->observe(request.folder).state))
      std::this_thread::sleep_for(kLook);
  }
  for (const auto& entry : fs::recursive_directory_iterator(scratch_.path()))
    if (entry.is_directory() && !entry.is_symlink())
      fs::permissions(entry.path(), fs::perms::owner_all);
}

AttemptRequest EngineConformance::new_attempt() {
  const std::string job = fmt::format("conformance-{}-{}-{}", ::getpid(),
                                      scratch_.path().filename().string(), requests_.size());
  const fs::path folder = jobs_ / job;
  AttemptRequest request{.id = job + ".1",
                         .folder = folder / "attempts/1",
                         .output = folder / "output",
                         .model = folder / "model"};
  request.job.spec.name = job;
  request.job.spec.engine = std::string(engine_->name());
  request.job.run_words = {"-n", "1", "--grace", "1"};
  GetParam().see_results(request);
  requests_.push_back(request);
  return request;
}

AttemptRequest EngineConformance::source_job(const std::map<std::string, std::string>& files,
                                             const std::vector<std::string>& program) {
  AttemptRequest request = new_attempt();
  const fs::path code = request.folder.parent_path() / "code", sources = scratch_ / "sources";
  fs::create_directories(sources);
  for (const auto& [name, text] : files) {
    fs::create_directories((code / name).parent_path());
    std::ofstream(code / name) << text;
  }
  const jobspec::PackedSource packed = jobspec::pack_source(code);
  write_file_atomically(sources / (packed.id + ".tar.gz"), packed.archive);
  request.source = jobspec::unpack_source(sources / (packed.id + ".tar.gz"), packed.id, sources);
  request.job.spec.source = packed.id;
  request.job.program = program;
  return request;
}

AttemptStatus EngineConformance::wait_for(const AttemptRequest& request, AttemptState state) {
  const auto deadline = patience();
  AttemptStatus status;
  while ((status = engine_->observe(request.folder)).state != state) {
    if (deadline.expired() || (has_ended(status.state) && status.state != state)) {
      const fs::path log = request.folder / "supervisor.log";
      ADD_FAILURE() << "waited for " << name_of(state) << ", found " << name_of(status.state)
                    << ": " << status.failure << "\n"
                    << (fs::exists(log) ? read_file(log) : "");
      break;
    }
    std::this_thread::sleep_for(kLook);
  }
  return status;
}

AttemptStatus EngineConformance::wait_for_end(const AttemptRequest& request) {
  const auto deadline = patience();
  while (true) {
    const AttemptStatus status = engine_->observe(request.folder);
    if (has_ended(status.state)) return status;
    if (deadline.expired()) {
      ADD_FAILURE() << request.id << " does not end: " << name_of(status.state);
      return status;
    }
    std::this_thread::sleep_for(kLook);
  }
}

void EngineConformance::wait_for_log(const AttemptRequest& request, const std::string& task,
                                     const std::string& text) {
  const auto deadline = patience();
  while (engine_->read_log(request.folder, task, 0, 1 << 20).bytes.find(text) ==
         std::string::npos) {
    ASSERT_FALSE(deadline.expired()) << "waited in vain for " << text;
    std::this_thread::sleep_for(kLook);
  }
}

std::string EngineConformance::whole_log(const AttemptRequest& request, const std::string& task,
                                         std::size_t most_bytes) {
  std::string text;
  std::uint64_t offset = 0;
  const auto deadline = patience();
  while (!deadline.expired()) {
    const LogChunk chunk = engine_->read_log(request.folder, task, offset, most_bytes);
    EXPECT_LE(chunk.bytes.size(), most_bytes);
    EXPECT_EQ(chunk.next, offset + chunk.bytes.size());
    text += chunk.bytes;
    offset = chunk.next;
    if (chunk.end) return text;
    if (chunk.bytes.empty()) std::this_thread::sleep_for(kLook);
  }
  ADD_FAILURE() << "the log does not end";
  return text;
}

TEST_P(EngineConformance, AnAttemptGoesThroughItsLife) {
  const AttemptRequest request = shell_job(
      "echo begun in $(basename \"$PWD\") on $SM_CURRENT_HOST; "
      "while [ ! -e \"$COHORT_OUTPUT/go\" ]; do sleep 0.05; done; echo over >&2");
  EXPECT_EQ(engine().observe(request.folder).state, AttemptState::unknown);
  EXPECT_THAT(engine().list(jobs_), IsEmpty());
  engine().submit(request);
  const AttemptStatus running = wait_for(request, AttemptState::running);
  ASSERT_EQ(running.tasks.size(), 1u);
  EXPECT_EQ(running.tasks[0].name, "worker:0");
  EXPECT_FALSE(running.started.empty());
  EXPECT_FALSE(running.exit_code);
  EXPECT_THAT(engine().list(jobs_), ElementsAre(request.folder));
  wait_for_log(request, "worker:0", "begun in " + request.job.spec.source + " on algo-1\n");
  EXPECT_FALSE(engine().read_log(request.folder, "worker:0", 1 << 20, 10).end);
  std::ofstream(request.output / "go") << "";
  const AttemptStatus ended = wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.failure, "");
  EXPECT_FALSE(ended.ended.empty());
  EXPECT_EQ(ended.tasks.at(0).state, "succeeded");
  EXPECT_THAT(engine().list(jobs_), IsEmpty());
  EXPECT_THAT(whole_log(request, "worker:0", 7), HasSubstr("over\n"));
  EXPECT_TRUE(engine().read_log(request.folder, "worker:7", 0, 10).end);
  EXPECT_TRUE(engine().read_log(request.folder, "../../x:0", 0, 10).bytes.empty());
}

TEST_P(EngineConformance, APythonProgramFindsItsModulesDataAndHyperparameters) {
  AttemptRequest request =
      source_job({{"train.py",
                   "import os, sys\nfrom lib.helper import twice\n"
                   "print(twice(sys.argv[2]), os.environ['SM_CHANNEL_TRAINING'])\n"
                   "open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('w')\n"},
                  {"lib/helper.py", "def twice(text): return text + text\n"}},
                 {"python3", "train.py", "--name", "a b"});
  const std::string data = scratch_.path().string();
  request.job.spec.inputs = {{"training", "file://" + data}};
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(whole_log(request, "worker:0"), "a ba b " + data + "\n");
  EXPECT_EQ(read_file(request.model / "weights"), "w");
}

TEST_P(EngineConformance, AnotherEngineSeesTheSame) {
  const AttemptRequest request = shell_job("echo hello");
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  const auto other = another_engine();
  EXPECT_EQ(other->observe(request.folder).state, AttemptState::succeeded);
  EXPECT_THAT(other->read_log(request.folder, "worker:0", 0, 100).bytes, HasSubstr("hello\n"));
}

TEST_P(EngineConformance, AFailureIsToldWithItsCause) {
  const AttemptRequest request = shell_job("echo no such data >&2; exit 3");
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_THAT(status.failure, HasSubstr("no such data"));
  EXPECT_EQ(status.tasks.at(0).exit_code, 3);
}

TEST_P(EngineConformance, WhatIsMissingIsSaidAllAtOnceBeforeAnythingStarts) {
  AttemptRequest request = shell_job(kCountRuns);
  request.job.program = {"absent.py"};
  request.job.spec.inputs = {{"training", "/no/such/data"}};
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_THAT(status.failure, HasSubstr("absent.py"));
  EXPECT_THAT(status.failure, HasSubstr("/no/such/data"));
  EXPECT_EQ(status.tasks.empty(), GetParam().looks_first);
  EXPECT_FALSE(fs::exists(request.output / "runs"));
}

TEST_P(EngineConformance, SubmittingAgainStartsNothing) {
  const AttemptRequest request = shell_job(kCountRuns);
  const auto other = another_engine();
  auto beside = std::async(std::launch::async, [&] { other->submit(request); });
  engine().submit(request);
  beside.get();
  wait_for(request, AttemptState::succeeded);
  engine().submit(request);
  other->submit(request);
  EXPECT_EQ(lines_of(request.output / "runs"), 1);
  EXPECT_EQ(engine().observe(request.folder).state, AttemptState::succeeded);
}

TEST_P(EngineConformance, ASubmittingProcessThatIsKilledAtAnyInstantMakesOneRun) {
  std::mt19937 random(7);
  std::vector<AttemptRequest> requests;
  for (int i = 0; i < GetParam().killed_submits; ++i) requests.push_back(shell_job(kCountRuns));
  for (const AttemptRequest& request : requests) {
    const std::chrono::microseconds life(random() % 30'000);
    submit_and_die(GetParam(), scratch_, request, life);
    engine().submit(request);
  }
  for (const AttemptRequest& request : requests) {
    const AttemptStatus status = wait_for_end(request);
    EXPECT_EQ(status.state, AttemptState::succeeded) << status.failure;
    EXPECT_EQ(lines_of(request.output / "runs"), 1) << request.id;
  }
}

TEST_P(EngineConformance, StopEndsAnAttemptAtAnyTime) {
  const AttemptRequest running = shell_job("echo ready; exec sleep 600");
  engine().submit(running);
  wait_for_log(running, "worker:0", "ready");
  engine().stop(running.folder);
  EXPECT_THAT(engine().observe(running.folder).state,
              AnyOf(Eq(AttemptState::stopping), Eq(AttemptState::stopped)));
  wait_for(running, AttemptState::stopped);
  engine().stop(running.folder);  // again: nothing

  const AttemptRequest early = shell_job("exec sleep 600");
  engine().submit(early);
  engine().stop(early.folder);
  wait_for(early, AttemptState::stopped);
}

TEST_P(EngineConformance, ATaskThatIgnoresTermIsKilledAfterItsGrace) {
  const AttemptRequest request = shell_job("trap '' TERM; echo ready; while :; do sleep 0.1; done");
  engine().submit(request);
  wait_for_log(request, "worker:0", "ready");
  engine().stop(request.folder);
  wait_for(request, AttemptState::stopped);
}

TEST_P(EngineConformance, AnAttemptWhoseTimeIsOverHasFailed) {
  AttemptRequest request = shell_job("exec sleep 600");
  request.job.spec.max_run = std::chrono::seconds(1);
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_EQ(status.failure, "max_run of 1 s is over");
  EXPECT_EQ(status.exit_code, 124);
}

TEST_P(EngineConformance, ALogGoesOnWhenTheJobIsStartedAgain) {
  AttemptRequest request = shell_job(
      "echo try $COHORT_ATTEMPT; [ -e \"$COHORT_OUTPUT/once\" ] || { touch "
      "\"$COHORT_OUTPUT/once\"; "
      "exit 5; }");
  request.job.run_words.insert(request.job.run_words.end(), {"--max-restarts", "1"});
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(status.tasks.at(0).restarts, 1);
  const std::string log = whole_log(request, "worker:0", 5);
  EXPECT_LT(log.find("try 1\n"), log.find("try 2\n"));
  EXPECT_NE(log.find("try 2\n"), std::string::npos);
}

TEST_P(EngineConformance, AnAttemptWhoseSupervisorWasKilledIsLost) {
  const AttemptRequest request = shell_job("echo ready; exec sleep 600");
  engine().submit(request);
  wait_for_log(request, "worker:0", "ready");
  GetParam().kill_supervisor(request.folder);
  wait_for(request, AttemptState::lost);
  EXPECT_TRUE(engine().read_log(request.folder, "worker:0", 1 << 20, 10).end);
}

TEST_P(EngineConformance, AnAttemptWhoseFolderWasRemovedIsLost) {
  const AttemptRequest request = shell_job("echo ready; exec sleep 600");
  engine().submit(request);
  wait_for_log(request, "worker:0", "ready");
  fs::remove_all(request.folder);
  EXPECT_EQ(engine().observe(request.folder).state, AttemptState::lost);
}

TEST_P(EngineConformance, TheNextAttemptGoesOnUnderTheSameJobAndOutput) {
  AttemptRequest request =
      shell_job("echo $COHORT_JOB ${COHORT_RESUME:-0} >> \"$COHORT_OUTPUT/said\"");
  engine().submit(request);
  wait_for(request, AttemptState::succeeded);
  const std::string job = request.job.spec.name;
  AttemptRequest next = request;
  next.id = job + ".2";
  next.folder = request.folder.parent_path() / "2";
  next.resume = true;
  engine().submit(next);
  wait_for(next, AttemptState::succeeded);
  EXPECT_EQ(read_file(request.output / "said"), fmt::format("{0} 0\n{0} 1\n", job));
}

TEST_P(EngineConformance, OnlyAnElasticJobThatRunsIsScaled) {
  const AttemptRequest request = shell_job("echo ready; exec sleep 600");
  EXPECT_THAT(message_of<InvalidInput>([&] { engine().scale(request.folder, 2); }),
              HasSubstr("does not run"));
  engine().submit(request);
  wait_for(request, AttemptState::running);
  EXPECT_THAT(message_of<InvalidInput>([&] { engine().scale(request.folder, 2); }),
              HasSubstr("elastic"));
}

TEST_P(EngineConformance, AnElasticJobBeginsAsSmallAsItIsGivenAndIsScaled) {
  if (!engine().abilities().scales) GTEST_SKIP() << "this engine does not scale";
  AttemptRequest request = new_attempt();
  const fs::path member = fs::read_symlink("/proc/self/exe").parent_path() / "member_program";
  const fs::path until = scratch_ / "until";
  request.job.run_words = {"-n", "1:3", "--elastic", "--grace", "1"};
  request.job.run_words.insert(request.job.run_words.end(), GetParam().elastic_words.begin(),
                               GetParam().elastic_words.end());
  request.job.instances = request.job.processes = 3;
  request.job.program = {member.string(), "--until", until.string()};
  request.instances = 1;
  engine().submit(request);
  const auto wait_for_members = [&](int count) {
    const auto deadline = patience();
    while (engine().observe(request.folder).workers != count) {
      ASSERT_FALSE(deadline.expired()) << "waited in vain for members: " << count;
      ASSERT_FALSE(has_ended(engine().observe(request.folder).state)) << "it ended";
      std::this_thread::sleep_for(kLook);
    }
  };
  wait_for_members(1);
  engine().scale(request.folder, 3);
  wait_for_members(3);
  engine().scale(request.folder, 2);
  wait_for_members(2);
  EXPECT_THROW(engine().scale(request.folder, 4), InvalidInput);
  std::ofstream(until) << "";
  wait_for(request, AttemptState::succeeded);
}

}  // namespace cohort::engine
