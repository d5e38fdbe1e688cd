#include "cohort/parallel/strategies/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

std::string refusal(const Arguments& arguments) {
  return message_of<InvalidInput>([&] { take_strategy_flags(arguments); });
}

TEST(Flags, TakesBothSpellingsAndLeavesTheRest) {
  const auto parsed =
      take_strategy_flags({"--epochs", "3", "--num_gpus", "2", "--distribution_strategy=mirrored",
                           "-v", "--device=cuda", "--threads", "4", "data"});
  EXPECT_EQ(parsed.flags.distribution_strategy, "mirrored");
  EXPECT_EQ(parsed.flags.num_gpus, 2);
  EXPECT_EQ(parsed.flags.device, "cuda");
  EXPECT_EQ(parsed.flags.threads, 4);
  EXPECT_EQ(parsed.flags.replicas_per_worker(), 2);
  EXPECT_THAT(parsed.rest, ElementsAre("--epochs", "3", "-v", "data"));
}

TEST(Flags, ReadsDashesAsUnderscoresAndTheLastOfTwo) {
  EXPECT_EQ(take_strategy_flags({"--num-replicas=2", "--num_replicas=3"}).flags.num_replicas, 3);
}

TEST(Flags, SaysWhatWorkersDivide) {
  EXPECT_EQ(take_strategy_flags({}).flags.shard, Shard::none);
  EXPECT_EQ(take_strategy_flags({"--shard", "optimizer"}).flags.shard, Shard::optimizer);
  EXPECT_THAT(refusal({"--shard=zero"}), AllOf(HasSubstr("'zero'"), HasSubstr("gradients")));
}

TEST(Flags, SaysWhatMultipliesMatrices) {
  EXPECT_EQ(take_strategy_flags({}).flags.matmul, MatrixProducts::automatic);
  EXPECT_EQ(take_strategy_flags({"--matmul=torch"}).flags.matmul, MatrixProducts::torch);
  EXPECT_EQ(take_strategy_flags({"--matmul", "onednn"}).flags.matmul, MatrixProducts::onednn);
  EXPECT_THAT(refusal({"--matmul=mkl"}), AllOf(HasSubstr("--matmul is 'mkl'"), HasSubstr("auto"),
                                               HasSubstr("torch"), HasSubstr("onednn")));
}

TEST(Flags, StopsAtALoneDoubleDash) {
  const auto parsed = take_strategy_flags({"--num_replicas=2", "--", "--num_replicas=x"});
  EXPECT_EQ(parsed.flags.num_replicas, 2);
  EXPECT_THAT(parsed.rest, ElementsAre("--", "--num_replicas=x"));
}

TEST(Flags, LeavesNamesThatOnlyBeginLikeOurs) {
  EXPECT_THAT(take_strategy_flags({"--num_gpus_max=1", "--devices"}).rest,
              ElementsAre("--num_gpus_max=1", "--devices"));
}

TEST(Flags, NamesFlagValueAndWhatIsAllowed) {
  EXPECT_THAT(refusal({"--distribution_strategy", "miror"}),
              AllOf(HasSubstr("--distribution_strategy is 'miror'"), HasSubstr("off, one_device"),
                    HasSubstr("parameter_server")));
  EXPECT_THAT(refusal({"--num_gpus=two"}),
              AllOf(HasSubstr("--num_gpus is 'two'"), HasSubstr("a number from 0 to")));
  EXPECT_THAT(refusal({"--num_gpus=-1"}), HasSubstr("--num_gpus is '-1'"));
  EXPECT_THAT(refusal({"--num_replicas=0"}), HasSubstr("--num_replicas is '0'"));
  EXPECT_THAT(refusal({"--threads=99999999999999999999"}), HasSubstr("--threads is"));
  EXPECT_THAT(refusal({"--device=gpu"}), AllOf(HasSubstr("'gpu'"), HasSubstr("cpu, cuda")));
  EXPECT_THAT(refusal({"--device="}), HasSubstr("--device is ''"));
}

TEST(Flags, RefusesAFlagWithoutItsValue) {
  EXPECT_THAT(refusal({"--num_gpus"}), HasSubstr("--num_gpus has no value"));
  EXPECT_THAT(refusal({"--num_gpus", "--epochs"}), HasSubstr("--num_gpus has no value"));
}

TEST(Flags, RefusesFlagsThatContradictEachOther) {
  EXPECT_THAT(refusal({"--num_gpus=2", "--device=cpu"}), HasSubstr("--device is cpu"));
  EXPECT_THAT(refusal({"--num_gpus=2", "--num_replicas=3"}), HasSubstr("--num_replicas is 3"));
  EXPECT_THAT(refusal({"--distribution_strategy=off", "--num_gpus=2"}),
              AllOf(HasSubstr("--num_gpus is 2"), HasSubstr("mirrored")));
}

ps::Policy policy(Arguments arguments) {
  return take_strategy_flags(arguments).flags.servers.policy();
}

TEST(Flags, StalenessAndSynchronyMakeOnePolicy) {
  using Mode = ps::Policy::Mode;
  EXPECT_EQ(policy({}).mode, Mode::sync);
  EXPECT_EQ(policy({"--sync_replicas=false"}).mode, Mode::async);
  EXPECT_EQ(policy({"--staleness=inf"}).mode, Mode::async);
  EXPECT_EQ(policy({"--staleness", "-1", "--sync_replicas=false"}).mode, Mode::async);
  EXPECT_EQ(policy({"--staleness=0"}).mode, Mode::sync);
  const ps::Policy bounded = policy({"--sync-replicas=false", "--staleness=3"});
  EXPECT_EQ(bounded.mode, Mode::bounded);
  EXPECT_EQ(bounded.staleness, 3);
  EXPECT_EQ(policy({"--replicas_to_aggregate=2"}).aggregate, 2);
}

TEST(Flags, ReadsWhatServersAreToldWithUnits) {
  const auto flags =
      take_strategy_flags({"--ps_memory_limit=3M", "--worker_timeout=1.5", "--ps_wire=bf16",
                           "--ps_durability=disk", "--ps_not_finite=drop", "--dry-run",
                           "--num_ps=2", "--ps_shared_memory=false"})
          .flags.servers;
  EXPECT_EQ(flags.memory_limit, 3u << 20);
  EXPECT_EQ(flags.worker_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(flags.wire, ps::WireType::bf16);
  EXPECT_EQ(flags.durability, ps::Durability::disk);
  EXPECT_EQ(flags.not_finite, ps::Policy::NotFinite::drop);
  EXPECT_TRUE(flags.dry_run);
  EXPECT_EQ(flags.num_ps, 2);
  EXPECT_FALSE(flags.shared_memory);
}

TEST(Flags, RefusesServerFlagsThatContradictEachOther) {
  EXPECT_THAT(refusal({"--sync_replicas=true", "--staleness=3"}),
              AllOf(HasSubstr("--sync_replicas is true"), HasSubstr("--staleness is 3")));
  EXPECT_THAT(refusal({"--sync_replicas=false", "--staleness=0"}), HasSubstr("--staleness is 0"));
  EXPECT_THAT(refusal({"--sync_replicas=false", "--replicas_to_aggregate=2"}),
              HasSubstr("--replicas_to_aggregate is 2"));
  EXPECT_THAT(refusal({"--distribution_strategy=mirrored", "--staleness=3"}),
              AllOf(HasSubstr("--staleness is a flag of"), HasSubstr("mirrored")));
  EXPECT_THAT(refusal({"--distribution_strategy=parameter_server", "--num_replicas=2"}),
              HasSubstr("--num_replicas is 2"));
  EXPECT_THAT(refusal({"--num_ps=2"}), HasSubstr("--dry_run"));
  EXPECT_THAT(refusal({"--ps_memory_limit=3X"}), HasSubstr("--ps_memory_limit is '3X'"));
  EXPECT_THAT(refusal({"--worker_timeout=0"}), HasSubstr("--worker_timeout is '0'"));
  EXPECT_THAT(refusal({"--ps_durability=paper"}), HasSubstr("'paper'"));
}

TEST(Flags, HelpNamesEveryFlagThatIsRead) {
  for (const FlagHelp& flag : strategy_flags_help()) {
    if (!flag.metavar.empty()) {
      EXPECT_THAT(refusal({flag.name}), HasSubstr(flag.name + " has no value"));
    }
    EXPECT_THAT(strategy_flags_text(), HasSubstr(flag.name + " " + flag.metavar));
  }
}

}  // namespace
}  // namespace cohort::parallel
