#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/net/socket.h"
#include "cohort/ps/client/client.h"
#include "cohort/ps/server/server.h"

namespace cohort::ps {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

// For tests: free ports of this host, and a job's name that no other test has.
inline std::vector<cluster::Address> free_addresses(int count) {
  std::vector<UniqueFd> held;
  std::vector<cluster::Address> addresses;
  for (int i = 0; i < count; ++i) {
    held.push_back(listen_on(Endpoint::tcp("127.0.0.1", 0)));
    addresses.push_back({"127.0.0.1", local_endpoint(held.back().get()).port()});
  }
  return addresses;
}

// For tests: a job's servers as threads of this process.
class ThreadServers {
 public:
  explicit ThreadServers(int count, ServerOptions options = {}) {
    addresses = free_addresses(count);
    for (int server = 0; server < count; ++server) {
      ServerOptions own;
      own.server = server;
      own.servers = addresses;
      own.job = "test";
      own.secret = options.secret;
      own.tls = options.tls;
      own.worker_timeout = options.worker_timeout;
      own.memory_limit = options.memory_limit;
      servers.push_back(std::make_unique<Server>(std::move(own)));
      threads.emplace_back([one = servers.back().get()] { one->run(); });
    }
  }
  ~ThreadServers() {
    for (const auto& server : servers) server->finish();
    for (auto& thread : threads) thread.join();
  }

  std::vector<cluster::Address> addresses;
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<std::thread> threads;
};

// For tests: two dense blocks, the first large enough for several slices on several servers.
// Gradients are small whole numbers and learning rates powers of two, so that every sum is exact
// and a reference needs no order.
struct Example {
  explicit Example(int workers, Policy::Mode mode = Policy::Mode::sync, double momentum = 0) {
    spec.workers = spec.shards = workers;
    spec.policy.mode = mode;
    spec.groups.push_back({.kind = UpdateRule::Kind::sgd, .lr = 0.5, .momentum = momentum});
    add_block("large.weight", 600'001);
    add_block("small.bias", 37);
  }
  void add_block(const std::string& name, std::uint64_t elements) {
    Block block;
    block.elements = elements;
    block.parts.push_back({name, 0, elements, 0});
    spec.blocks.push_back(block);
  }

  static float initial(int block, std::uint64_t i) {
    return static_cast<float>(static_cast<int>(i % 7) - 3 + block);
  }
  static float gradient(int worker, std::uint64_t step, int block, std::uint64_t i) {
    return static_cast<float>(
        static_cast<int>((i + 3 * step + 5 * static_cast<std::uint64_t>(worker + block)) % 5) - 2);
  }
  InitialState initial_state(std::uint64_t first_step = 0) const {
    InitialState state;
    state.first_step = state.updates = first_step;
    state.read = [](int block, int slot, std::uint64_t offset, std::uint64_t elements,
                    std::byte* to) {
      auto* out = reinterpret_cast<float*>(to);
      for (std::uint64_t i = 0; i < elements; ++i)
        out[i] = slot < 0 ? initial(block, offset + i) : 0.0f;
    };
    return state;
  }
  // After `steps` steps of all workers, learning rate 0.5.
  std::vector<std::vector<float>> reference(std::uint64_t steps) const {
    std::vector<std::vector<float>> values;
    for (std::size_t block = 0; block < spec.blocks.size(); ++block) {
      values.emplace_back(spec.blocks[block].elements);
      for (std::uint64_t i = 0; i < values[block].size(); ++i) {
        float value = initial(static_cast<int>(block), i);
        for (std::uint64_t step = 0; step < steps; ++step)
          for (int worker = 0; worker < spec.workers; ++worker)
            value -= 0.5f * gradient(worker, step, static_cast<int>(block), i);
        values[block][i] = value;
      }
    }
    return values;
  }

  ModelSpec spec;
};

// For tests: a worker that trains an Example.
class ExampleWorker {
 public:
  ExampleWorker(const Example& example, ClientOptions options)
      : example_(example), worker_(options.worker) {
    options.workers = example.spec.workers;
    options.chief = worker_ == 0;
    if (options.job.empty()) options.job = "test";
    client = Client::connect(std::move(options), soon());
    for (std::size_t block = 0; block < example.spec.blocks.size(); ++block) {
      values.emplace_back(example.spec.blocks[block].elements);
      gradients_.emplace_back(values.back().size());
      runs.push_back({static_cast<int>(block), 0, values.back().size(),
                      reinterpret_cast<std::byte*>(values.back().data())});
    }
  }

  std::uint64_t begin() {
    const InitialState initial = example_.initial_state();
    next_ = client->begin(example_.spec, worker_ == 0 ? &initial : nullptr, soon());
    client->read(runs, 0, soon());
    return next_;
  }

  void push(std::uint64_t step) {
    client->begin_step({.sequence = step + 1, .weight = 1, .learning_rates = {0.5}});
    for (std::size_t block = 0; block < values.size(); ++block) {
      auto& gradient = gradients_[block];
      for (std::uint64_t i = 0; i < gradient.size(); ++i)
        gradient[i] = Example::gradient(worker_, step, static_cast<int>(block), i);
      const auto* partial = reinterpret_cast<const std::byte*>(gradient.data());
      client->push(static_cast<int>(block), std::span(&partial, 1));
    }
  }
  StepOutcome finish(Deadline deadline = soon()) {
    ++next_;
    return client->finish_step({.tally = {{1.0, 2.0}}}, runs, deadline);
  }
  StepOutcome step() {
    push(next_);
    return finish();
  }

  std::unique_ptr<Client> client;
  std::vector<std::vector<float>> values;
  std::vector<BlockRun> runs;

 private:
  const Example& example_;
  int worker_;
  std::uint64_t next_ = 0;
  std::vector<std::vector<float>> gradients_;
};

// True when all are equal; says where not.
inline testing::AssertionResult equal(const std::vector<std::vector<float>>& got,
                                      const std::vector<std::vector<float>>& expected) {
  for (std::size_t block = 0; block < expected.size(); ++block)
    for (std::size_t i = 0; i < expected[block].size(); ++i)
      if (got[block][i] != expected[block][i])
        return testing::AssertionFailure() << "element " << i << " of block " << block << " is "
                                           << got[block][i] << ", not " << expected[block][i];
  return testing::AssertionSuccess();
}

}  // namespace cohort::ps
