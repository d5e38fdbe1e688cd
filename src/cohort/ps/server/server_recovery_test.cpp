// What outlives a server's process at each durability, and consistent copies.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/ps/model/model_spec_text.h"
#include "cohort/ps/model/placement.h"
#include "cohort/ps/server/small_training_test.h"
#include "cohort/ps/table/sparse_table.h"

namespace cohort::ps {
namespace {

using Reason = Values::Reason;
using Floats = std::vector<float>;

UniqueFd memory_file() { return UniqueFd(::memfd_create("kept", MFD_CLOEXEC)); }

ServerOptions kept_server(const UniqueFd& memory) {
  ServerOptions options = loopback_server();
  options.durability = Durability::process;
  options.memory = UniqueFd(::dup(memory.get()));
  return options;
}

void train_two_steps(ServerThread& server, const ModelSpec& spec) {
  const auto workers = start_training(server, spec);
  for (std::uint64_t sequence : {1, 2}) {
    for (const auto& worker : workers) push_step(*worker, sequence, 1);
    for (const auto& worker : workers)
      for (int i = 0; i < 2; ++i) EXPECT_EQ(expect_values(*worker).header.version, sequence);
  }
  // Half of a third step: one slice of one worker, which was not acknowledged.
  begin(*workers[1], 3);
  push(*workers[1], 0, 3, 1);
  workers[1]->say(AskStats{1});
  workers[1]->expect<Stats>();
}

// The chief's first connection to a server that was started again, which must have two steps.
void expect_two_steps(ServerThread& server, int workers) {
  ScriptedWorker chief(server.tcp());
  chief.say(hello_of(0, workers, 2));
  const auto welcome = chief.expect<Welcome>();
  EXPECT_TRUE(welcome.initialised);
  EXPECT_EQ(welcome.finished, 2u);
  EXPECT_EQ(parse_model_spec(welcome.spec), small_model(workers));
  push_step(chief, 2, 77);
  for (int i = 0; i < 2; ++i) {
    const Answer answer = expect_values(chief);
    EXPECT_EQ(answer.header.reason, Reason::applied) << "it was in already";
    EXPECT_EQ(answer.values[0], -4);
  }
  ScriptedWorker other(server.tcp());
  other.say(hello_of(1, workers, 2));
  EXPECT_EQ(other.expect<Welcome>().finished, 2u);
  push_step(other, 3, 1);
  push_step(chief, 3, 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(expect_values(chief).values[0], -6);
}

TEST(ServerRecovery, ProcessGoesOnFromTheMemoryThatWasKept) {
  const UniqueFd memory = memory_file();
  {
    ServerThread server(kept_server(memory));
    EXPECT_FALSE(server.server().recovered());
    train_two_steps(server, small_model(2));
  }
  ServerThread server(kept_server(memory));
  EXPECT_TRUE(server.server().recovered());
  expect_two_steps(server, 2);
}

TEST(ServerRecovery, AModelThatWasNeverCommittedIsForgotten) {
  const UniqueFd memory = memory_file();
  {
    ServerThread server(kept_server(memory));
    ScriptedWorker chief(server.tcp());
    chief.say(hello_of(0, 1));
    chief.expect<Welcome>();
    chief.say(Init{0, to_text(small_model(1))});
    chief.say(SetSlice{0, 0}, bytes_of(Floats(8, 9)));
    chief.say(AskStats{1});
    chief.expect<Stats>();
  }
  ServerThread server(kept_server(memory));
  EXPECT_FALSE(server.server().recovered());
  start_training(server, small_model(1));
}

TEST(ServerRecovery, DiskGoesOnFromItsLog) {
  const ScratchFolder folder;
  const auto options = [&] {
    ServerOptions disk = loopback_server();
    disk.durability = Durability::disk;
    disk.folder = folder.path();
    return disk;
  };
  {
    ServerThread server(options());
    train_two_steps(server, small_model(2));
  }
  ServerThread server(options());
  EXPECT_TRUE(server.server().recovered());
  expect_two_steps(server, 2);
}

// Ports without a listener: servers of a job have to know each other's beforehand.
std::vector<cluster::Address> free_addresses(int count) {
  std::vector<UniqueFd> taken;
  std::vector<cluster::Address> addresses;
  for (int i = 0; i < count; ++i) {
    taken.push_back(listen_on(Endpoint::tcp("127.0.0.1", 0)));
    addresses.push_back({"127.0.0.1", local_endpoint(taken.back().get()).port()});
  }
  return addresses;
}

TEST(ServerRecovery, ReplicaGoesOnFromTheCopyOnAnotherServer) {
  const auto addresses = free_addresses(2);
  const auto options = [&](int number) {
    ServerOptions replica = loopback_server();
    replica.durability = Durability::replica;
    replica.server = number;
    replica.servers = addresses;
    return replica;
  };
  const ModelSpec spec = small_model(1);
  const auto placement = place(spec, 2);
  ASSERT_NE(placement[0].server, placement[1].server);
  const int server_of_weight = placement[0].server;
  Hello hello = hello_of(0, 1);
  hello.server = server_of_weight;
  hello.servers = 2;
  ServerThread holder(options(1 - server_of_weight));
  {
    ServerThread server(options(server_of_weight));
    ScriptedWorker chief(server.tcp());
    chief.say(hello);
    EXPECT_FALSE(chief.expect<Welcome>().initialised);
    chief.say(Init{0, to_text(spec)});
    chief.say(SetSlice{0, 0}, bytes_of(Floats(8, 1)));
    chief.say(Commit{});
    EXPECT_TRUE(chief.expect<Welcome>().initialised);
    begin(chief, 1);
    push(chief, 0, 1, 3);
    EXPECT_EQ(expect_values(chief).values, Floats(8, -2));
  }
  ServerThread again(options(server_of_weight));
  ScriptedWorker chief(again.tcp());
  hello.incarnation = 2;
  chief.say(hello);
  const auto welcome = chief.expect<Welcome>();
  EXPECT_TRUE(welcome.initialised);
  EXPECT_EQ(welcome.finished, 1u);
  begin(chief, 2);
  push(chief, 0, 2, 1);
  EXPECT_EQ(expect_values(chief).values, Floats(8, -3));
}

// The server that would hold its copy never answers.
TEST(ServerRecovery, AServerThatWaitsForItsReplicaEndsWhenItIsAsked) {
  for (const bool fails : {false, true}) {
    ServerOptions options = loopback_server();
    options.durability = Durability::replica;
    const UniqueFd holder = listen_on(Endpoint::tcp("127.0.0.1", 0));
    options.servers = {free_addresses(1)[0], {"127.0.0.1", local_endpoint(holder.get()).port()}};
    ServerThread server(std::move(options));
    pollfd asked{holder.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&asked, 1, 10'000), 1) << "it does not look for its copy";
    if (fails) server.server().fail(std::make_exception_ptr(Error("the store is lost")));
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(server.stop(), fails ? "the store is lost" : "");
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  }
}

TEST(ServerRecovery, AResumedTrainingBeginsAtItsStep) {
  ServerThread server(loopback_server());
  ScriptedWorker chief(server.tcp());
  chief.say(hello_of(0, 1));
  give_model(chief, small_model(1), 40);
  push_step(chief, 41, 1);
  EXPECT_EQ(expect_values(chief).header.version, 41u);
}

struct Copy {
  std::map<int, std::pair<SliceState, Floats>> slices;
};
Copy hear_copy(ScriptedWorker& worker, std::uint64_t request) {
  Copy copy;
  while (true) {
    auto received = worker.hear();
    if (const auto* done = std::get_if<SnapshotDone>(&received.message)) {
      EXPECT_EQ(done->request, request);
      return copy;
    }
    const auto header = std::get<SliceState>(received.message);
    copy.slices[header.slice] = {header, floats_of(received.bulk)};
  }
}

TEST(ServerSnapshot, ACopyHasWholeStepsOnly) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2, {.mode = Policy::Mode::async}));
  begin(*workers[1], 1);
  push(*workers[1], 0, 1, 1);  // half of its step
  expect_values(*workers[1]);
  workers[0]->say(FreezeRequest{5});
  EXPECT_EQ(workers[0]->expect<Frozen>(), (Frozen{5, {0, 1}}));
  push_step(*workers[0], 1, 10);
  EXPECT_TRUE(workers[0]->is_quiet()) << "a push that the Frozen does not name waits";
  workers[0]->say(SnapshotRequest{5, {0, 1}});
  EXPECT_TRUE(workers[0]->is_quiet()) << "worker/1's step is not whole";
  push(*workers[1], 1, 1, 1);
  expect_values(*workers[1]);
  // Values of the step that waited and the copy come interleaved.
  Copy copy;
  int values = 0;
  bool done = false;
  while (!done || values < 2) {
    auto received = workers[0]->hear();
    if (std::holds_alternative<Values>(received.message)) ++values;
    if (std::holds_alternative<SnapshotDone>(received.message)) done = true;
    if (const auto* header = std::get_if<SliceState>(&received.message))
      copy.slices[header->slice] = {*header, floats_of(received.bulk)};
  }
  ASSERT_EQ(copy.slices.size(), 2u);
  EXPECT_EQ(copy.slices[0].second, Floats(8, -1));
  EXPECT_EQ(copy.slices[1].second, Floats(4, -1));
  EXPECT_EQ(copy.slices[1].first.updates, 1u);
}

TEST(ServerSnapshot, InSyncTheHolderIsNotWaitedFor) {
  ServerThread server(loopback_server());
  const auto workers = start_training(server, small_model(2));
  push_step(*workers[1], 1, 1);  // cannot be in before worker/0 has pushed, which copies first
  workers[1]->say(AskStats{1});
  workers[1]->expect<Stats>();
  workers[0]->say(FreezeRequest{5});
  EXPECT_EQ(workers[0]->expect<Frozen>(), (Frozen{5, {0, 0}}));
  workers[0]->say(SnapshotRequest{5, {0, 0}});
  EXPECT_EQ(hear_copy(*workers[0], 5).slices[0].second, Floats(8, 0));
  push_step(*workers[0], 1, 1);
  EXPECT_EQ(expect_values(*workers[0]).values[0], -2);
}

TEST(ServerSnapshot, AHolderThatIsGoneHoldsNothing) {
  ServerThread server(loopback_server());
  auto workers = start_training(server, small_model(2, {.mode = Policy::Mode::async}));
  workers[1]->say(FreezeRequest{1});
  workers[1]->expect<Frozen>();
  workers[0]->say(FreezeRequest{2});
  push_step(*workers[0], 1, 1);
  EXPECT_TRUE(workers[0]->is_quiet());
  workers[1].reset();
  auto next = workers[0]->hear();
  while (!std::holds_alternative<Frozen>(next.message)) next = workers[0]->hear();
  EXPECT_EQ(std::get<Frozen>(next.message).sequences[0], 1u) << "the next one's turn";
}

TEST(ServerTables, RowsArePushedAndPulledByKey) {
  ModelSpec spec = small_model(2, {.mode = Policy::Mode::sync});
  TableSpec table;
  table.name = "users";
  table.dimension = 2;
  table.initial_scale = 0;
  spec.tables = {table};
  ServerThread server(loopback_server());
  const auto workers = start_training(server, spec);
  const auto rows = [](std::vector<std::uint64_t> keys, Floats values) {
    return RowGradients{std::move(keys), std::move(values)}.encode();
  };
  for (const auto& worker : workers) begin(*worker, 1, 0.5);
  workers[0]->say(RowsPush{0, 1, 0}, rows({7, 1000000}, {1, 2, 3, 4}));
  workers[1]->say(RowsPush{0, 1, 0}, rows({7}, {10, 20}));
  for (const auto& worker : workers)
    EXPECT_EQ(worker->expect<RowsDone>(), (RowsDone{0, 1, 1, Reason::applied}));
  const std::vector<std::uint64_t> keys{1000000, 7, 8};
  const std::string key_bytes(reinterpret_cast<const char*>(keys.data()), 24);
  workers[1]->say(RowsPull{9, 0, 2}, key_bytes);
  std::string bulk;
  EXPECT_EQ(workers[1]->expect<Rows>(&bulk), (Rows{9, 1}));
  EXPECT_EQ(floats_of(bulk), (Floats{-3, -4, -11, -22, 0, 0}));
  workers[1]->say(RowsPull{10, 0, 3}, key_bytes);
  EXPECT_TRUE(workers[1]->is_quiet()) << "step 2 is not in";
  workers[1]->say(RowsPush{0, 1, 0}, "nonsense!");
  EXPECT_NE(workers[1]->expect<Refused>().reason, "");
}

}  // namespace
}  // namespace cohort::ps
