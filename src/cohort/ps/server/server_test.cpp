#include "cohort/ps/server/server.h"

#include <gtest/gtest.h>

#include "cohort/base/message_of_test.h"
#include "cohort/ps/server/small_training_test.h"
#include "cohort/ps/state/segment.h"
#include "cohort/ps/state/segment_reader.h"

namespace cohort::ps {
namespace {

using Reason = Values::Reason;
using Floats = std::vector<float>;

TEST(Server, SyncAnswersWhenAllHavePushedWithTheSumOfAll) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2));
  push_step(*workers[0], 1, 1.5f, 0.5);
  EXPECT_TRUE(workers[0]->is_quiet());
  push_step(*workers[1], 1, 2.0f, 0.5);
  for (const auto& worker : workers) {
    const Answer last = expect_values(*worker);
    const Answer first = expect_values(*worker);
    EXPECT_EQ(last.header.slice + first.header.slice, 1);
    for (const Answer& answer : {last, first}) {
      EXPECT_EQ(answer.header.version, 1u);
      EXPECT_EQ(answer.header.sequence, 1u);
      EXPECT_EQ(answer.header.reason, Reason::applied);
      EXPECT_EQ(answer.values, Floats(answer.header.slice == 0 ? 8 : 4, -3.5f));
    }
  }
  EXPECT_EQ(server.stop(), "");
}

TEST(Server, WorkersOfTheHostPushAndReadThroughMemory) {
  ServerThread server(loopback_server());
  ScriptedRegion region(4096);
  ScriptedWorker worker(server.local());
  worker.say(hello_of(0, 1), {}, region.file());
  worker.expect<Welcome>();
  worker.say(Init{0, to_text(small_model(1))});
  worker.say(SetSlice{0, 0}, bytes_of(Floats(8, 5)));
  worker.say(SetSlice{1, 0}, bytes_of(Floats(4, 6)));
  worker.say(Commit{});
  auto welcome = worker.hear();
  ASSERT_TRUE(welcome.file);
  EXPECT_LT(::write(welcome.file.get(), "x", 1), 0) << "the model is only for reading";
  SegmentReader reader(std::move(welcome.file));
  region.put(0, Floats(8, 1));
  region.put(256, Floats(4, 2));
  begin(worker, 1);
  worker.say(Push{0, 1, 0, 0});
  worker.say(Push{1, 1, 0, 256});
  for (int i = 0; i < 2; ++i) {
    const Answer answer = expect_values(worker);
    EXPECT_TRUE(answer.values.empty());
    Floats values(answer.header.slice == 0 ? 8 : 4);
    const ReadRun run{0, values.size(), reinterpret_cast<std::byte*>(values.data())};
    EXPECT_EQ(reader.read(answer.header.slice, {&run, 1}), 1u);
    EXPECT_EQ(values, Floats(values.size(), 4));
  }
}

TEST(Server, ARegionMayGrow) {
  ServerThread server(loopback_server());
  ScriptedRegion region(64);
  ScriptedWorker worker(server.local());
  worker.say(hello_of(0, 1), {}, region.file());
  give_model(worker, small_model(1));
  ASSERT_EQ(::ftruncate(region.file(), 8192), 0);
  begin(worker, 1);
  worker.say(Push{0, 1, 0, 8192 - 32});
  EXPECT_EQ(expect_values(worker).header.reason, Reason::applied);
}

TEST(Server, AsyncAppliesEachPushOnceHoweverOftenItComes) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2, {.mode = Policy::Mode::async}));
  begin(*workers[1], 1);
  for (int i = 0; i < 3; ++i) {
    push(*workers[1], 0, 1, 1);
    const Answer answer = expect_values(*workers[1]);
    EXPECT_EQ(answer.values, Floats(8, -1));
    EXPECT_EQ(answer.header.reason, Reason::applied);
  }
  begin(*workers[0], 1, 0.5);
  push(*workers[0], 0, 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).values, Floats(8, -3)) << "divided by its weight";
}

TEST(Server, ABackupWorkersLatePushIsDroppedWithTheCurrentValues) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(3, {.aggregate = 2}));
  for (int worker : {0, 2}) push_step(*workers[worker], 1, 1.0f + worker, 0.25);
  EXPECT_EQ(expect_values(*workers[0]).values[0], -8) << "(1 + 3) / (0.25 + 0.25)";
  push_step(*workers[1], 1, 100, 0.25);
  const Answer late = expect_values(*workers[1]);
  EXPECT_EQ(late.header.reason, Reason::dropped_late);
  EXPECT_EQ(late.header.version, 1u);
  EXPECT_EQ(late.values[0], -8);
  workers[1]->say(AskStats{7});
  expect_values(*workers[1]);
  EXPECT_NE(workers[1]->expect<Stats>().json.find("\"dropped_late\":2"), std::string::npos);
}

TEST(Server, BoundedStalenessHoldsAnswersBack) {
  ServerThread server(loopback_server());
  const auto workers =
      start_training(server, small_model(2, {.mode = Policy::Mode::bounded, .staleness = 1}));
  push_step(*workers[0], 1, 1);
  expect_values(*workers[0]);
  expect_values(*workers[0]);
  push_step(*workers[0], 2, 1);
  EXPECT_TRUE(workers[0]->is_quiet()) << "worker/1 has not finished step 1";
  push_step(*workers[1], 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).header.sequence, 2u);
  expect_values(*workers[0]);
  push_step(*workers[0], 3, 1);
  EXPECT_TRUE(workers[0]->is_quiet());
  workers[1]->say(Leave{});
  EXPECT_EQ(expect_values(*workers[0]).header.sequence, 3u) << "no worker waits for one that left";
}

TEST(Server, APullWaitsForItsClock) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2));
  workers[0]->say(Pull{5, 0});
  for (int slice : {1, 0}) {
    const Answer answer = expect_values(*workers[0]);
    EXPECT_EQ(answer.header, (Values{slice, 5, 0, Reason::pulled}));
    EXPECT_EQ(answer.values, Floats(slice == 0 ? 8 : 4, 0));
  }
  EXPECT_EQ(workers[0]->expect<PullDone>().request, 5u);
  workers[0]->say(Pull{6, 1});
  EXPECT_TRUE(workers[0]->is_quiet());
  push_step(*workers[0], 1, 1);
  push_step(*workers[1], 1, 1);
  int pulled = 0;
  while (true) {
    const auto message = workers[0]->hear().message;
    if (std::holds_alternative<PullDone>(message)) break;
    if (std::get<Values>(message).reason == Reason::pulled) ++pulled;
  }
  EXPECT_EQ(pulled, 2);
}

TEST(Server, StepsEndTogetherWithTheSumOfTheirRows) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2));
  for (const auto& worker : workers) begin(*worker, 1);
  workers[0]->say(StepEnd{1, {{1, 10}}, 0, ""});
  EXPECT_TRUE(workers[0]->is_quiet());
  workers[1]->say(StepEnd{1, {{2, 20}}, 0, "enough"});
  for (const auto& worker : workers)
    EXPECT_EQ(worker->expect<StepDone>(), (StepDone{1, true, {3, 30}, "enough"}));
}

TEST(Server, GradientsAndValuesMayTravelInSixteenBits) {
  ServerThread server(loopback_server());
  ScriptedWorker worker(server.tcp());
  Hello hello = hello_of(0, 1);
  hello.wire = WireType::bf16;
  worker.say(hello);
  give_model(worker, small_model(1));
  begin(worker, 1);
  worker.say(Push{0, 1, 0, 0},
             std::string("\x80\x3f\x80\x3f\x80\x3f\x80\x3f\x80\x3f\x80\x3f\x00\x40\x80\x3f", 16));
  std::string bulk;
  worker.expect<Values>(&bulk);
  EXPECT_EQ(bulk,
            std::string("\x80\xbf\x80\xbf\x80\xbf\x80\xbf\x80\xbf\x80\xbf\x00\xc0\x80\xbf", 16));
}

TEST(Server, WithoutASecretItIsNotOpenToTheNetwork) {
  ServerOptions options = loopback_server();
  options.bind_host = "";
  EXPECT_NE(message_of<InvalidInput>([&] {
              Server(std::move(options));
            }).find("would be open to the network"),
            std::string::npos);
}

TEST(Server, FailEndsRun) {
  ServerThread server(loopback_server());
  server.server().fail(std::make_exception_ptr(Error("the job failed")));
  EXPECT_EQ(server.stop(), "the job failed");
}

}  // namespace
}  // namespace cohort::ps
