#include "cohort/membership/faults/fault_points.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  return message_of<InvalidInput>([&] { parse_faults(text); });
}

// The wait status of a child that runs `body` and then exits with what it returns.
pid_t start_child(const std::function<int()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  return child;
}

int status_of(pid_t child, int flags = 0) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, flags), child);
  return status;
}

TEST(FaultParserTest, ReadsEveryPart) {
  auto faults = parse_faults(
      "kill@rank1:step17:reduce, pause@rank*:step*:bucket3:800ms,cut@rank0:step9:apply:again:1.5s");
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].action, Fault::Action::kill);
  EXPECT_EQ(faults[0].rank, 1);
  EXPECT_EQ(faults[0].step, 17);
  EXPECT_EQ(faults[0].phase, "reduce");
  EXPECT_FALSE(faults[0].again);
  EXPECT_EQ(faults[1].action, Fault::Action::pause);
  EXPECT_EQ(faults[1].rank, std::nullopt);
  EXPECT_EQ(faults[1].step, std::nullopt);
  EXPECT_EQ(faults[1].phase, "bucket3");
  EXPECT_EQ(faults[1].time, milliseconds(800));
  EXPECT_EQ(faults[2].action, Fault::Action::cut);
  EXPECT_TRUE(faults[2].again);
  EXPECT_EQ(faults[2].time, milliseconds(1500));
}

TEST(FaultParserTest, RefusesByNameWhatItDoesNotKnow) {
  EXPECT_THAT(refusal_of("explode@rank1:step1:load"), HasSubstr("'explode'"));
  EXPECT_THAT(refusal_of("kill"), HasSubstr("ACTION@rankN:stepN:PHASE"));
  EXPECT_THAT(refusal_of("kill@rank1:load"), HasSubstr("rank, step and phase"));
  EXPECT_THAT(refusal_of("kill@task1:step1:load"), HasSubstr("'task1'"));
  EXPECT_THAT(refusal_of("kill@rank-1:step1:load"), HasSubstr("'rank-1'"));
  EXPECT_THAT(refusal_of("kill@rank1:step:load"), HasSubstr("'step'"));
  EXPECT_THAT(refusal_of("kill@rank1:step1:lunch"), HasSubstr("'lunch'"));
  EXPECT_THAT(refusal_of("kill@rank1:step1:bucketx"), HasSubstr("'bucketx'"));
  EXPECT_THAT(refusal_of("kill@rank1:step1:load:3s"), HasSubstr("kill takes no time"));
  EXPECT_THAT(refusal_of("pause@rank1:step1:load"), HasSubstr("pause needs a time"));
  EXPECT_THAT(refusal_of("pause@rank1:step1:load:3"), HasSubstr("'3'"));
  EXPECT_THAT(refusal_of("pause@rank1:step1:load:0s"), HasSubstr("'0s'"));
  EXPECT_THAT(refusal_of("pause@rank1:step1:load:nans"), HasSubstr("'nans'"));
  EXPECT_THAT(refusal_of("pause@rank1:step1:load:3s:4s"), HasSubstr("'4s'"));
  EXPECT_THAT(refusal_of("kill@rank1:step1:load,,"), HasSubstr("''"));
}

TEST(FaultPointsTest, KillsItsProcessAtThatPhaseOfThatStepOnly) {
  int status = status_of(start_child([] {
    FaultPoints points(parse_faults("kill@rank1:step2:reduce"), 1, 0);
    points.reach("reduce", 1);
    points.reach("apply", 2);
    FaultPoints(parse_faults("kill@rank1:step2:reduce"), 0, 0).reach("reduce", 2);
    FaultPoints(parse_faults("kill@rank1:step2:reduce"), 1, 1).reach("reduce", 2);
    FaultPoints(parse_faults("kill@rank1:step2:reduce:again"), 1, 0).reach("reduce", 2);
    return 7;
  }));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);

  for (const auto& [text, incarnation] : std::vector<std::pair<std::string, int>>{
           {"kill@rank1:step2:reduce", 0}, {"kill@rank*:step*:reduce:again", 3}}) {
    status = status_of(start_child([&] {
      FaultPoints(parse_faults(text), 1, incarnation).reach("reduce", 2);
      return 7;
    }));
    ASSERT_TRUE(WIFSIGNALED(status)) << text;
    EXPECT_EQ(WTERMSIG(status), SIGKILL) << text;
  }
}

TEST(FaultPointsTest, StopsAllThreadsForThatTimeAndLeavesNoChild) {
  auto begin = Deadline::Clock::now();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = start_child([&] {
    std::atomic<Deadline::Clock::duration> longest{Deadline::Clock::duration::zero()};
    std::thread other([&] {
      for (auto last = Deadline::Clock::now();;) {
        std::this_thread::sleep_for(milliseconds(1));
        auto now = Deadline::Clock::now();
        longest = std::max(longest.load(), now - last);
        last = now;
      }
    });
    other.detach();
    FaultPoints points(parse_faults("pause@rank0:step*:forward:300ms"), 0, 0);
    points.reach("forward", 0);
    std::this_thread::sleep_for(milliseconds(20));  // for the other's next round
    bool stood_still = longest.load() >= milliseconds(250);
    bool no_child = ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
    points.reach("forward", 1);  // once only
    char go = 0;
    if (::read(ends[0], &go, 1) != 1) return 9;
    return stood_still && no_child ? 7 : 8;
  });
  EXPECT_TRUE(WIFSTOPPED(status_of(child, WUNTRACED)));
  EXPECT_TRUE(WIFCONTINUED(status_of(child, WCONTINUED)));
  EXPECT_GE(Deadline::Clock::now() - begin, milliseconds(300));
  EXPECT_EQ(::write(ends[1], "g", 1), 1);
  int status = status_of(child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(FaultPointsTest, AStoppedProcessThatIsKilledKeepsNoFileOpen) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = start_child([&] {
    FaultPoints(parse_faults("pause@rank0:step0:load:20s"), 0, 0).reach("load", 0);
    return 7;
  });
  ::close(ends[1]);
  ASSERT_TRUE(WIFSTOPPED(status_of(child, WUNTRACED)));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  auto begin = Deadline::Clock::now();
  char nothing = 0;
  EXPECT_EQ(::read(ends[0], &nothing, 1), 0);
  EXPECT_LT(Deadline::Clock::now() - begin, seconds(5));
  ::close(ends[0]);
}

TEST(FaultPointsTest, SlowSleepsOnceAndAnyBucketIsABucket) {
  FaultPoints points(parse_faults("slow@rank0:step1:bucket:50ms,slow@rank0:step2:bucket1:50ms"), 0,
                     0);
  auto timed = [&](int bucket, int step) {
    auto begin = Deadline::Clock::now();
    points.reach_bucket(bucket, step);
    return Deadline::Clock::now() - begin;
  };
  EXPECT_LT(timed(3, 0), milliseconds(40));
  EXPECT_GE(timed(3, 1), milliseconds(50));
  EXPECT_LT(timed(4, 1), milliseconds(40));
  EXPECT_LT(timed(0, 2), milliseconds(40));
  EXPECT_GE(timed(1, 2), milliseconds(50));
}

TEST(FaultPointsTest, CutCallsItsHookAndIsRefusedWithoutOne) {
  auto make = [] { return FaultPoints(parse_faults("cut@rank0:step1:apply:3s"), 0, 0); };
  FaultPoints without = make();
  EXPECT_THAT(message_of<InvalidInput>([&] { without.reach("apply", 1); }), HasSubstr("--elastic"));
  FaultPoints points = make();
  std::vector<milliseconds> cuts;
  points.on_cut([&](milliseconds time) { cuts.push_back(time); });
  points.reach("apply", 0);
  points.reach("apply", 1);
  points.reach("apply", 1);
  EXPECT_EQ(cuts, std::vector<milliseconds>{seconds(3)});
}

TEST(FaultPointsTest, ReadsThisProcessesEnvironment) {
  auto run = [](const char* type, const char* incarnation) {
    return status_of(start_child([&] {
      ::setenv("COHORT_FAULT", "kill@rank2:step0:load", 1);
      ::setenv("COHORT_TASK_TYPE", type, 1);
      ::setenv("COHORT_TASK_INDEX", "2", 1);
      ::setenv("COHORT_INCARNATION", incarnation, 1);
      FaultPoints::of_this_process().reach("load", 0);
      return 7;
    }));
  };
  EXPECT_TRUE(WIFSIGNALED(run("worker", "0")));
  EXPECT_TRUE(WIFEXITED(run("worker", "1")));
  EXPECT_TRUE(WIFEXITED(run("ps", "0")));
}

}  // namespace
}  // namespace cohort::membership
