#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cohort/ps/server/scripted_worker_test.h"

namespace cohort::ps {

inline ServerOptions loopback_server(std::string job = "test") {
  ServerOptions options;
  options.servers = {{"127.0.0.1", 0}};
  options.job = std::move(job);
  options.worker_timeout = std::chrono::seconds(30);
  return options;
}

// Two slices, SGD with learning rate 1: an update subtracts the gradient.
inline ModelSpec small_model(int workers, Policy policy = {}) {
  ModelSpec spec;
  spec.blocks = {{ElementType::f32, 8, {{"dense.weight", 0, 8, 0}}},
                 {ElementType::f32, 4, {{"dense.bias", 0, 4, 0}}}};
  spec.groups = {UpdateRule{.lr = 1}};
  spec.policy = policy;
  spec.workers = workers;
  spec.shards = workers;
  return spec;
}

inline Hello hello_of(int worker, int workers, std::uint64_t incarnation = 1) {
  Hello hello;
  hello.worker = worker;
  hello.workers = workers;
  hello.incarnation = incarnation;
  hello.chief = worker == 0;
  return hello;
}

// Values begin at zero.
inline void give_model(ScriptedWorker& chief, const ModelSpec& spec, std::uint64_t first_step = 0) {
  EXPECT_FALSE(chief.expect<Welcome>().initialised);
  chief.say(Init{first_step, to_text(spec)});
  for (std::size_t slice = 0; slice < spec.blocks.size(); ++slice)
    chief.say(SetSlice{static_cast<int>(slice), first_step},
              bytes_of(std::vector<float>(spec.blocks[slice].elements)));
  chief.say(Commit{});
  EXPECT_TRUE(chief.expect<Welcome>().initialised);
}

// Workers that have said hello, worker/0 having given the model.
inline std::vector<std::unique_ptr<ScriptedWorker>> start_training(ServerThread& server,
                                                                   const ModelSpec& spec) {
  std::vector<std::unique_ptr<ScriptedWorker>> workers;
  for (int worker = 0; worker < spec.workers; ++worker) {
    workers.push_back(std::make_unique<ScriptedWorker>(server.tcp()));
    workers.back()->say(hello_of(worker, spec.workers));
    if (worker == 0)
      give_model(*workers[0], spec);
    else
      EXPECT_TRUE(workers.back()->expect<Welcome>().initialised);
  }
  return workers;
}

inline void begin(ScriptedWorker& worker, std::uint64_t sequence, double weight = 1) {
  worker.say(StepBegin{sequence, weight, {1.0}});
}
inline void push(ScriptedWorker& worker, int slice, std::uint64_t sequence, float gradient,
                 std::uint64_t base_version = 0) {
  worker.say(Push{slice, sequence, base_version, 0},
             bytes_of(std::vector<float>(slice == 0 ? 8 : 4, gradient)));
}
// The whole step.
inline void push_step(ScriptedWorker& worker, std::uint64_t sequence, float gradient,
                      double weight = 1) {
  begin(worker, sequence, weight);
  push(worker, 0, sequence, gradient);
  push(worker, 1, sequence, gradient);
}

struct Answer {
  Values header;
  std::vector<float> values;
};
inline Answer expect_values(ScriptedWorker& worker) {
  std::string bulk;
  Answer answer{worker.expect<Values>(&bulk), {}};
  answer.values = floats_of(bulk);
  return answer;
}

}  // namespace cohort::ps
