// Peers that lie, die, stall or come twice: they are told why, and the others do not notice.
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/base/message_of_test.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/ps/model/model_spec_text.h"
#include "cohort/ps/server/small_training_test.h"

namespace cohort::ps {
namespace {

using Reason = Values::Reason;
using Floats = std::vector<float>;

std::string refusal(ScriptedWorker& worker) { return worker.expect<Refused>().reason; }

// One worker of an async training, which all others leave alone.
class ServerFaults : public testing::Test {
 protected:
  ServerFaults() : workers_(start_training(server_, spec_)) {}
  // A peer may do what it likes: this one is served.
  void expect_service() {
    push_step(*workers_[0], ++sequence_, 1);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(expect_values(*workers_[0]).header.version, static_cast<std::uint64_t>(sequence_));
  }

  const ModelSpec spec_ = small_model(2, {.mode = Policy::Mode::async});
  ServerThread server_{loopback_server()};
  std::vector<std::unique_ptr<ScriptedWorker>> workers_;
  std::uint64_t sequence_ = 0;
};

TEST_F(ServerFaults, SequencesWithAGapAreNamed) {
  workers_[1]->say(StepBegin{2, 1, {}});
  EXPECT_EQ(refusal(*workers_[1]), "worker/1 begins sequence 2, but 1 comes next");
  EXPECT_THROW(workers_[1]->hear(), PeerError) << "and the connection ends";
  expect_service();
}

TEST_F(ServerFaults, APushOutsideItsStepIsNamed) {
  begin(*workers_[1], 1);
  push(*workers_[1], 0, 2, 1);
  EXPECT_EQ(refusal(*workers_[1]), "worker/1 pushes sequence 2 in the step of sequence 1");
  expect_service();
}

TEST_F(ServerFaults, SlicesAndSizesThatDoNotFitAreNamed) {
  begin(*workers_[1], 1);
  workers_[1]->say(Push{7, 1, 0, 0}, bytes_of(Floats(8)));
  EXPECT_EQ(refusal(*workers_[1]), "slice 7 is not of ps/0");
  ScriptedWorker again(server_.tcp());
  again.say(hello_of(1, 2, 2));
  again.expect<Welcome>();
  begin(again, 1);
  again.say(Push{0, 1, 0, 0}, bytes_of(Floats(4)));
  EXPECT_EQ(refusal(again), "a push of this slice has 32 bytes, but 16 came");
  expect_service();
}

TEST_F(ServerFaults, ARegionThatCouldShrinkIsRefused) {
  ScriptedRegion region(4096, 0);
  ScriptedWorker worker(server_.local());
  worker.say(hello_of(1, 2, 2), {}, region.file());
  EXPECT_EQ(refusal(worker),
            "the worker's region is not a memory file that is sealed against shrinking");
  expect_service();
}

TEST_F(ServerFaults, PlacesOutsideTheRegionAreRefused) {
  for (std::uint64_t offset : {std::uint64_t{4096 - 24}, std::uint64_t{1} << 40, UINT64_MAX - 7}) {
    ScriptedRegion region(4096);
    ScriptedWorker worker(server_.local());
    worker.say(hello_of(1, 2, 2), {}, region.file());
    worker.expect<Welcome>();
    begin(worker, 1);
    worker.say(Push{0, 1, 0, offset});
    EXPECT_EQ(refusal(worker),
              fmt::format("a push of 32 bytes at {} of a region of 4096 bytes", offset));
  }
  expect_service();
}

TEST_F(ServerFaults, APushWithoutBytesAndWithoutARegionIsRefused) {
  begin(*workers_[1], 1);
  workers_[1]->say(Push{0, 1, 0, 0});
  EXPECT_EQ(refusal(*workers_[1]), "a push of this slice has 32 bytes, but 0 came");
  expect_service();
}

TEST_F(ServerFaults, StrangersAreDropped) {
  UniqueFd garbage = connect_to(server_.tcp(), Deadline::after(std::chrono::seconds(5)));
  send_all(garbage.get(), std::string(4000, 'x'), Deadline::after(std::chrono::seconds(5)), "ps");
  char answer[4096];
  ASSERT_TRUE(wait_ready(garbage.get(), POLLIN, Deadline::after(std::chrono::seconds(5))));
  while (read_some(garbage.get(), answer, sizeof answer).status == IoResult::Status::progress)
    wait_ready(garbage.get(), POLLIN, Deadline::after(std::chrono::seconds(5)));
  ScriptedWorker silent(server_.tcp());  // proves itself, and says nothing
  ScriptedWorker early(server_.tcp());
  early.say(AskStats{1});
  EXPECT_EQ(refusal(early), "the first message is not a Hello");
  expect_service();
}

TEST_F(ServerFaults, HalfAMessageAndThenSilenceDisturbsNoOther) {
  UniqueFd half = connect_to(server_.tcp(), Deadline::after(std::chrono::seconds(5)));
  const auto keys = client_handshake(half.get(), {kProtocol, {}, "worker/1"},
                                     Deadline::after(std::chrono::seconds(5)), "ps/0")
                        .keys;
  FrameEncoder encoder(keys.client_to_server, kMaxControlBytes);
  std::string frame;
  encoder.encode(std::string(100, 'x'), frame);
  send_all(half.get(), frame.substr(0, 40), Deadline::after(std::chrono::seconds(5)), "ps/0");
  expect_service();
}

TEST_F(ServerFaults, AnotherClusterIsRefusedInWords) {
  Hello hello = hello_of(1, 2, 2);
  hello.servers = 3;
  hello.server = 2;
  ScriptedWorker lost(server_.tcp());
  lost.say(hello);
  EXPECT_EQ(refusal(lost), "worker/1 looks for ps/2 of 3, but this is ps/0 of 1");
  ScriptedWorker other(server_.tcp());
  other.say(hello_of(4, 5));
  EXPECT_EQ(refusal(other), "worker/4 is one of 5 workers, but the model is for 2");
  ScriptedWorker none(server_.tcp());
  none.say(hello_of(2, 2));
  EXPECT_EQ(refusal(none), "worker/2 of 2 workers");
  ScriptedWorker future(server_.tcp());
  hello = hello_of(1, 2, 2);
  hello.version = 9;
  future.say(hello);
  EXPECT_EQ(refusal(future), "the worker speaks version 9 of the protocol, ps/0 2");
  expect_service();
}

// No clock says which of two processes is the newer one: the launcher counts them, and of those
// with one count the server knows which came first.
TEST_F(ServerFaults, AProcessThatWasReplacedStaysReplaced) {
  Hello first = hello_of(1, 2, 1), second = first;
  first.process = 7'000;
  second.process = 3;  // as of a process that was started when the clock had been set back
  auto say = [&](const Hello& hello) {
    auto worker = std::make_unique<ScriptedWorker>(server_.tcp());
    worker->say(hello);
    return worker;
  };
  auto older = say(first);
  older->expect<Welcome>();
  auto newer = say(second);
  newer->expect<Welcome>();
  EXPECT_EQ(refusal(*older), "another connection has taken the place of worker/1");
  EXPECT_EQ(refusal(*say(first)), "a newer process is worker/1 already");
  auto again = say(second);  // the same process, connected anew
  again->expect<Welcome>();
  first.incarnation = 2;
  auto counted = say(first);
  counted->expect<Welcome>();
  EXPECT_EQ(refusal(*say(second)), "a newer process is worker/1 already");
}

TEST_F(ServerFaults, ANewerProcessTakesAWorkersPlace) {
  ScriptedWorker newer(server_.tcp());
  newer.say(hello_of(1, 2, 5));
  newer.expect<Welcome>();
  EXPECT_EQ(refusal(*workers_[1]), "another connection has taken the place of worker/1");
  ScriptedWorker older(server_.tcp());
  older.say(hello_of(1, 2, 4));
  EXPECT_EQ(refusal(older), "a newer process is worker/1 already");
  begin(newer, 1);
  push(newer, 0, 1, 1);
  EXPECT_EQ(expect_values(newer).header.reason, Reason::applied);
}

TEST_F(ServerFaults, ASecondModelIsRefused) {
  workers_[0]->say(Init{0, to_text(spec_)});
  EXPECT_EQ(refusal(*workers_[0]), "ps/0 has a model already");
}

TEST_F(ServerFaults, AGradientThatIsNotFiniteIsNamed) {
  push_step(*workers_[1], 1, 1);
  expect_values(*workers_[1]);
  expect_values(*workers_[1]);
  begin(*workers_[1], 2);
  push(*workers_[1], 1, 2, std::nanf(""));
  EXPECT_EQ(refusal(*workers_[1]),
            "worker/1's gradient of dense.bias in step 1 is not finite (nan)");
  workers_[0]->say(Pull{1, 0});
  EXPECT_EQ(expect_values(*workers_[0]).values, Floats(4, -1)) << "and it is not in";
}

TEST(ServerFault, DroppedGradientsAreLeftOutAndTrainingGoesOn) {
  ServerThread server(loopback_server());
  const auto workers =
      start_training(server, small_model(2, {.not_finite = Policy::NotFinite::drop}));
  for (const auto& worker : workers) begin(*worker, 1, 0.5);
  push(*workers[0], 0, 1, INFINITY);
  push(*workers[1], 0, 1, 2);
  const Answer dropped = expect_values(*workers[0]);
  EXPECT_EQ(dropped.header.reason, Reason::dropped_not_finite);
  EXPECT_EQ(dropped.values, Floats(8, -4)) << "the average of those that are left";
  EXPECT_EQ(expect_values(*workers[1]).header.reason, Reason::applied);
  for (const auto& worker : workers) push(*worker, 1, 1, NAN);
  for (const auto& worker : workers) {
    const Answer answer = expect_values(*worker);
    EXPECT_EQ(answer.header.reason, Reason::dropped_not_finite);
    EXPECT_EQ(answer.header.version, 1u) << "no worker waits for ever";
    EXPECT_EQ(answer.values, Floats(4, 0));
  }
}

TEST(ServerFault, AppliedAsTheyAreWhereThatIsWanted) {
  ServerThread server(loopback_server());
  const auto workers =
      start_training(server, small_model(1, {.not_finite = Policy::NotFinite::apply}));
  begin(*workers[0], 1);
  push(*workers[0], 0, 1, INFINITY);
  EXPECT_EQ(expect_values(*workers[0]).values, Floats(8, -INFINITY));
}

TEST(ServerFault, AWrongSecretGetsNowhere) {
  ServerOptions options = loopback_server();
  options.secret = Secret::generate();
  ServerThread server(std::move(options));
  ScriptedWorker stranger(server.tcp(), Secret::generate());
  EXPECT_THROW(stranger.hear(), AuthError);
  ScriptedWorker open(server.tcp());
  EXPECT_THROW(open.hear(), AuthError);
}

TEST(ServerFault, AContributionOutlivesItsConnection) {
  ServerThread server(loopback_server());
  auto workers = start_training(server, small_model(2));
  push_step(*workers[1], 1, 1);
  workers[1].reset();
  push_step(*workers[0], 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).values[0], -2);
  ScriptedWorker again(server.tcp());
  again.say(hello_of(1, 2, 1));
  EXPECT_EQ(again.expect<Welcome>().finished, 1u);
  EXPECT_TRUE(again.is_quiet()) << "what it does not ask for again is not answered";
  push_step(again, 1, 50);
  const Answer answer = expect_values(again);
  EXPECT_EQ(answer.header.reason, Reason::applied);
  EXPECT_EQ(answer.values[0], -2) << "it was in already";
}

TEST(ServerFault, ARegionOutlivesItsConnectionToo) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2));
  {
    ScriptedRegion region(4096);
    ScriptedWorker local(server.local());
    local.say(hello_of(1, 2, 2), {}, region.file());
    local.expect<Welcome>();
    region.put(64, Floats(8, 3));
    begin(local, 1);
    local.say(Push{0, 1, 0, 64});
    local.say(AskStats{1});
    local.expect<Stats>();
  }
  begin(*workers[0], 1);
  push(*workers[0], 0, 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).values, Floats(8, -4));
}

TEST(ServerFault, WithTooFewWorkersLeftTheOthersAreTold) {
  ServerOptions options = loopback_server();
  options.worker_timeout = std::chrono::milliseconds(200);
  ServerThread server(std::move(options));
  auto workers = start_training(server, small_model(3));
  push_step(*workers[0], 1, 1);
  workers[2].reset();
  const std::string reason = refusal(*workers[0]);
  EXPECT_EQ(reason.substr(0, reason.find(" (away")),
            "step 0 needs the gradients of 3 workers, but only 2 can still give one; missing: "
            "worker/2");
  push_step(*workers[1], 1, 1);
  EXPECT_NE(refusal(*workers[1]).find("missing: worker/2"), std::string::npos)
      << "who comes to wait later is told too";
}

TEST(ServerFault, BackupWorkersCoverOneThatIsGone) {
  ServerOptions options = loopback_server();
  options.worker_timeout = std::chrono::milliseconds(100);
  ServerThread server(std::move(options));
  auto workers = start_training(server, small_model(3, {.aggregate = 2}));
  workers[2].reset();
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
    for (int worker : {0, 1}) push_step(*workers[worker], sequence, 1);
    for (int worker : {0, 1})
      for (int slice = 0; slice < 2; ++slice)
        EXPECT_EQ(expect_values(*workers[worker]).header.version, sequence);
  }
}

TEST(ServerFault, BoundedTrainingGoesOnWithoutAWorkerThatIsGone) {
  ServerOptions options = loopback_server();
  options.worker_timeout = std::chrono::milliseconds(200);
  ServerThread server(std::move(options));
  auto workers = start_training(server, small_model(2, {.mode = Policy::Mode::bounded}));
  push_step(*workers[0], 1, 1);
  EXPECT_TRUE(workers[0]->is_quiet());
  workers[1].reset();
  EXPECT_EQ(expect_values(*workers[0]).header.version, 1u);
}

TEST(ServerFault, NoWorkerHoldsTheOthersUpForEver) {
  ServerOptions options = loopback_server();
  options.worker_timeout = std::chrono::milliseconds(200);
  ServerThread server(std::move(options));
  const auto workers = start_training(server, small_model(2, {.mode = Policy::Mode::async}));
  workers[1]->say(FreezeRequest{1});
  workers[1]->expect<Frozen>();
  push_step(*workers[0], 1, 1);
  EXPECT_TRUE(workers[0]->is_quiet());
  EXPECT_EQ(expect_values(*workers[0]).header.version, 1u);
  EXPECT_EQ(refusal(*workers[1]), "worker/1 has held up the training for 0.2 s to copy the state");
}

TEST(ServerFault, WhoDoesNotReadCostsLittleAndIsRefusedInTheEnd) {
  ModelSpec spec = small_model(2, {.mode = Policy::Mode::async});
  spec.blocks[0].elements = spec.blocks[0].parts[0].elements = 64 << 10;
  ServerThread server(loopback_server());
  const auto workers = start_training(server, spec);
  for (std::uint64_t request = 0; request < 300; ++request) workers[1]->say(Pull{request, 0});
  begin(*workers[0], 1);
  push(*workers[0], 1, 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).header.version, 1u) << "the others do not notice";
  std::string reason;
  while (reason.empty()) {
    const auto received = workers[1]->hear();
    if (const auto* refused = std::get_if<Refused>(&received.message)) reason = refused->reason;
  }
  EXPECT_EQ(reason, "worker/1 has 256 requests under way");
}

TEST(ServerFault, WhoDoesNotSayInTimeWhoItIsIsDropped) {
  ServerThread server(loopback_server());
  UniqueFd mute = connect_to(server.tcp(), Deadline::after(std::chrono::seconds(5)));
  ScriptedWorker proven(server.tcp());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(proven.hear(Deadline::after(kHandshakeTimeout * 2)), PeerError);
  EXPECT_TRUE(wait_ready(mute.get(), POLLIN, Deadline::after(kHandshakeTimeout)));
  char byte;
  EXPECT_EQ(read_some(mute.get(), &byte, 1).status, IoResult::Status::closed);
  EXPECT_GE(std::chrono::steady_clock::now() - began, kHandshakeTimeout / 2);
}

TEST(ServerFault, AChiefThatDiesHalfWayIsReplaced) {
  ServerThread server(loopback_server());
  {
    ScriptedWorker chief(server.tcp());
    chief.say(hello_of(0, 2));
    chief.expect<Welcome>();
    chief.say(Init{0, to_text(small_model(2))});
    chief.say(SetSlice{0, 0}, bytes_of(Floats(8, 9)));
  }
  ScriptedWorker waits(server.tcp());
  waits.say(hello_of(1, 2));
  EXPECT_TRUE(waits.is_quiet());
  ScriptedWorker chief(server.tcp());
  chief.say(hello_of(0, 2, 2));
  give_model(chief, small_model(2));
  EXPECT_TRUE(waits.expect<Welcome>().initialised);
  chief.say(Pull{1, 0});
  expect_values(chief);
  EXPECT_EQ(expect_values(chief).values, Floats(8, 0)) << "nothing of the first one's";
}

TEST(ServerFault, ModelsThatDoNotFitAreRefusedWithTheReason) {
  ServerOptions options = loopback_server();
  options.memory_limit = 40;
  ServerThread server(std::move(options));
  const auto refused = [&](const std::function<void(ScriptedWorker&)>& give) {
    static std::uint64_t incarnation = 1;
    ScriptedWorker chief(server.tcp());
    chief.say(hello_of(0, 1, ++incarnation));
    chief.expect<Welcome>();
    give(chief);
    return refusal(chief);
  };
  EXPECT_NE(refused([](auto& chief) { chief.say(Init{0, to_text(small_model(1))}); }), "");
  EXPECT_NE(refused([](auto& chief) { chief.say(Init{0, "{}"}); }), "");
  EXPECT_EQ(refused([](auto& chief) {
              chief.say(Init{0, to_text(small_model(2))});
            }),
            "the model is for 2 workers, and its chief is one of 1");
  EXPECT_EQ(refused([](auto& chief) { chief.say(Commit{}); }),
            "no model was begun: Init comes first");
}

}  // namespace
}  // namespace cohort::ps
