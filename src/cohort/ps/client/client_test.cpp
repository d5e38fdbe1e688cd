#include "cohort/ps/client/client.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/client/client_servers_test.h"

namespace cohort::ps {
namespace {

using testing::AssertionResult;

enum class Way { local, tcp, tls, f16 };

class ClientTest : public testing::TestWithParam<Way> {
 protected:
  void start(int servers) {
    ServerOptions options;
    if (GetParam() == Way::tls) {
      secret = Secret::generate();
      options.secret = secret;
      options.tls = true;
    }
    cluster = std::make_unique<ThreadServers>(servers, std::move(options));
  }
  ClientOptions options(int worker = 0) const {
    ClientOptions options;
    options.worker = worker;
    options.servers = cluster->addresses;
    options.shared_memory = GetParam() == Way::local;
    options.tls = GetParam() == Way::tls;
    options.secret = secret;
    if (GetParam() == Way::f16) options.wire = WireType::f16;
    return options;
  }

  std::optional<Secret> secret;
  std::unique_ptr<ThreadServers> cluster;
};

std::string way_name(const testing::TestParamInfo<Way>& info) {
  const std::map<Way, std::string> names{
      {Way::local, "Local"}, {Way::tcp, "Tcp"}, {Way::tls, "Tls"}, {Way::f16, "Half"}};
  return names.at(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, ClientTest, testing::Values(Way::local, Way::tcp, Way::tls, Way::f16),
                         way_name);

TEST_P(ClientTest, OneWorkerTrainsAsTheReference) {
  start(2);
  Example example(1);
  ExampleWorker worker(example, options());
  EXPECT_FALSE(worker.client->servers_have_model());
  EXPECT_EQ(worker.begin(), 0u);
  EXPECT_TRUE(equal(worker.values, example.reference(0)));
  for (int step = 0; step < 5; ++step) {
    const StepOutcome outcome = worker.step();
    EXPECT_TRUE(outcome.whole);
    EXPECT_EQ(outcome.tally, (std::vector<double>{1, 2}));
    EXPECT_EQ(outcome.dropped, 0u);
  }
  EXPECT_TRUE(equal(worker.values, example.reference(5)));
  EXPECT_EQ(worker.client->reconnects(), 0u);
  worker.client->leave(soon());
}

TEST_P(ClientTest, TwoWorkersInStepHaveTheSameValues) {
  start(2);
  Example example(2);
  std::vector<std::vector<std::vector<float>>> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      ExampleWorker worker(example, options(rank));
      worker.begin();
      for (int step = 0; step < 4; ++step) {
        const StepOutcome outcome = worker.step();
        EXPECT_TRUE(outcome.whole);
        EXPECT_EQ(outcome.tally, (std::vector<double>{2, 4}));
      }
      results[static_cast<std::size_t>(rank)] = worker.values;
      worker.client->leave(soon());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(equal(results[0], example.reference(4)));
  EXPECT_TRUE(equal(results[1], example.reference(4)));
}

TEST_P(ClientTest, AWorkerThatIsStartedAnewGoesOnWhereItWas) {
  start(2);
  Example example(1);
  {
    ExampleWorker worker(example, options());
    worker.begin();
    for (int step = 0; step < 3; ++step) worker.step();
  }
  ExampleWorker again(example, options());
  EXPECT_TRUE(again.client->servers_have_model());
  EXPECT_EQ(again.begin(), 3u);
  EXPECT_TRUE(equal(again.values, example.reference(3)));
  again.step();
  EXPECT_TRUE(equal(again.values, example.reference(4)));
}

TEST_P(ClientTest, ReadsPartsOfBlocksAcrossSlices) {
  start(2);
  Example example(1);
  ExampleWorker worker(example, options());
  worker.begin();
  worker.step();
  const auto expected = example.reference(1);
  std::vector<float> part(300'000), tail(2);
  const std::vector<BlockRun> runs{
      {0, 200'000, part.size(), reinterpret_cast<std::byte*>(part.data())},
      {1, 35, tail.size(), reinterpret_cast<std::byte*>(tail.data())}};
  worker.client->read(runs, 1, soon());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected[0].begin() + 200'000));
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), expected[1].begin() + 35));
  const BlockRun outside{1, 30, 8, reinterpret_cast<std::byte*>(part.data())};
  EXPECT_THROW(worker.client->read(std::span(&outside, 1), 0, soon()), InvalidInput);
}

TEST_P(ClientTest, ASnapshotHasValuesAndSlotsOfOneInstant) {
  start(2);
  Example example(1, Policy::Mode::sync, 0.5);
  ExampleWorker worker(example, options());
  worker.begin();
  worker.step();
  std::vector<std::vector<float>> values, momentum;
  for (const auto& block : worker.values) {
    values.emplace_back(block.size());
    momentum.emplace_back(block.size());
  }
  StateSink sink;
  sink.slice = [&](int block, int slot, std::uint64_t offset, std::uint64_t elements,
                   std::uint64_t updates, const std::byte* from) {
    EXPECT_EQ(updates, 1u);
    auto& to = slot < 0 ? values : momentum;
    std::copy_n(reinterpret_cast<const float*>(from), elements,
                to[static_cast<std::size_t>(block)].begin() + static_cast<long>(offset));
  };
  worker.client->snapshot(sink, soon());
  EXPECT_TRUE(equal(values, example.reference(1)));
  for (std::size_t block = 0; block < momentum.size(); ++block)
    for (std::size_t i = 0; i < momentum[block].size(); ++i)
      ASSERT_EQ(momentum[block][i], Example::gradient(0, 0, static_cast<int>(block), i));
  worker.step();  // nothing is held any more
}

TEST_P(ClientTest, RowsGoToTheirServersAndBack) {
  start(2);
  Example example(1);
  example.spec.tables.push_back({.name = "users", .dimension = 3, .initial_scale = 0.25});
  ExampleWorker worker(example, options());
  worker.begin();
  const std::vector<std::uint64_t> keys{9, 4, 1'000'000'007, 5, 123};
  std::vector<float> before(keys.size() * 3), after(keys.size() * 3), gradients(keys.size() * 3);
  worker.client->pull_rows(0, keys, 1, before.data(), soon());
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(i) - 4;
  worker.push(0);
  worker.client->push_rows(0, keys, gradients);
  worker.finish();
  worker.step();  // without a call of push_rows
  worker.client->pull_rows(0, keys, 3, after.data(), soon());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    EXPECT_EQ(after[i], before[i] - 0.5f * gradients[i]) << i;
  EXPECT_THROW(worker.client->push_rows(0, keys, std::span(gradients).first(4)), InvalidInput);
}

TEST_P(ClientTest, AnotherModelIsNamedWithBothSides) {
  start(1);
  Example example(2);
  ExampleWorker chief(example, options(0));
  chief.begin();
  Example other(2);
  other.spec.blocks[1].parts[0].name = "other.bias";
  ExampleWorker worker(other, options(1));
  const std::string text = message_of<InvalidInput>([&] { worker.begin(); });
  EXPECT_NE(text.find("small.bias"), std::string::npos) << text;
  EXPECT_NE(text.find("worker/1"), std::string::npos) << text;
}

TEST_P(ClientTest, AGradientThatIsNotFiniteFailsItsWorkerByName) {
  start(1);
  Example example(1);
  ExampleWorker worker(example, options());
  worker.begin();
  worker.client->begin_step({.sequence = 1, .learning_rates = {0.5}});
  for (std::size_t block = 0; block < worker.values.size(); ++block) {
    std::vector<float> gradient(worker.values[block].size(), 1);
    if (block == 1) gradient[5] = std::nanf("");
    const auto* partial = reinterpret_cast<const std::byte*>(gradient.data());
    worker.client->push(static_cast<int>(block), std::span(&partial, 1));
  }
  const std::string text = message_of<Error>([&] { worker.finish(); });
  EXPECT_NE(text.find("small.bias"), std::string::npos) << text;
  EXPECT_NE(text.find("ps/0"), std::string::npos) << text;
}

TEST_P(ClientTest, AStepThatOthersHoldUpSaysWhoHasNotAnswered) {
  start(2);
  Example example(2);
  ExampleWorker chief(example, options(0));
  chief.begin();
  chief.push(0);
  const std::string text = message_of<TimeoutError>(
      [&] { chief.finish(Deadline::after(std::chrono::milliseconds(200))); });
  EXPECT_NE(text.find("step 1"), std::string::npos) << text;
  EXPECT_NE(text.find("ps/1"), std::string::npos) << text;
  EXPECT_NE(text.find("has not answered"), std::string::npos) << text;
}

TEST_P(ClientTest, StatisticsComeFromEveryServer) {
  start(2);
  Example example(1);
  ExampleWorker worker(example, options());
  worker.begin();
  const auto texts = worker.client->stats(soon());
  ASSERT_EQ(texts.size(), 2u);
  for (const auto& text : texts) EXPECT_EQ(text.front(), '{') << text;
}

TEST(Client, AMissingServerIsNamedAtTheDeadline) {
  ClientOptions options;
  options.servers = free_addresses(1);
  options.job = "other";
  const std::string text = message_of<TimeoutError>(
      [&] { Client::connect(options, Deadline::after(std::chrono::milliseconds(100))); });
  EXPECT_NE(text.find("ps/0 at 127.0.0.1:"), std::string::npos) << text;
  EXPECT_NE(text.find("not reachable: its address does not answer: Connection refused"),
            std::string::npos)
      << text;
}

TEST(Client, AnotherSecretIsRefused) {
  ServerOptions server;
  server.secret = Secret::generate();
  ThreadServers cluster(1, std::move(server));
  for (const bool shared_memory : {false, true}) {
    ClientOptions options;
    options.servers = cluster.addresses;
    options.job = "test";
    options.secret = Secret::generate();
    options.shared_memory = shared_memory;
    EXPECT_THROW(Client::connect(options, soon()), AuthError);
  }
}

TEST(Client, AWorkerComesBeforeItsServersAndItsChief) {
  const auto addresses = free_addresses(1);
  Example example(2);
  const auto options = [&](int worker) {
    ClientOptions options;
    options.worker = worker;
    options.servers = addresses;
    options.job = "late";
    return options;
  };
  std::vector<std::thread> workers;
  for (int rank : {1, 0})
    workers.emplace_back([&, rank] {
      ExampleWorker worker(example, options(rank));
      worker.begin();
      worker.step();
      EXPECT_TRUE(equal(worker.values, example.reference(1)));
    });
  ServerOptions server;
  server.servers = addresses;
  server.job = "late";
  Server late(std::move(server));
  std::thread thread([&] { late.run(); });
  for (auto& worker : workers) worker.join();
  late.finish();
  thread.join();
}

TEST(Client, WithoutOrderEveryPushIsInOnce) {
  ThreadServers cluster(2);
  Example example(3, Policy::Mode::async);
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> last;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      ClientOptions options;
      options.worker = rank;
      options.servers = cluster.addresses;
      options.shared_memory = rank != 1;
      ExampleWorker worker(example, options);
      worker.begin();
      for (int step = 0; step < 6; ++step) worker.step();
      if (rank != 0) return;
      worker.client->read(worker.runs, 6, soon());
      last = worker.values;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(equal(last, example.reference(6)));
}

}  // namespace
}  // namespace cohort::ps
