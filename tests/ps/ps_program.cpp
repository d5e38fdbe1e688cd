// A training without LibTorch, for tests that kill its tasks: every task of a job runs it.
// usage: ps_program [--steps N] [--elements N] [--mode sync|async|bounded] [--staleness S]
//                   [--aggregate N] [--durability LEVEL] [--tcp] [--pause MS] [--slow FILE]
//                   [--acks FOLDER] [--die-at-the-end]
//
// sync: gradients of a block depend on the values of two blocks before, the worker and the step, so
// that a lost, repeated or reordered update, or values of mixed steps, change the
// result: the gradient is a chaotic function of them, so that no difference dies out. async,
// bounded: each of a worker's pushes adds 1 to elements of its own, so that the result counts them.
// A worker appends every acknowledged sequence to FOLDER/worker-I, and pauses MS after each step,
// with --slow only while FILE exists. With --die-at-the-end worker 1 is killed when its work is
// done and it has not yet said so to the others. At the end each worker prints "values DIGEST" and,
// unless sync, "counts A B
// ...".
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/process/run_main.h"
#include "cohort/base/text.h"
#include "cohort/cluster/session/session.h"
#include "cohort/ps/client/client.h"
#include "cohort/ps/server/serve.h"

namespace {

using namespace cohort;
using std::chrono::seconds;

struct Options {
  std::uint64_t steps = 100;
  std::uint64_t elements = 100'000;
  std::string mode = "sync";
  std::int64_t staleness = 0;
  int aggregate = 0;
  std::string durability = "process";
  bool tcp = false;
  int pause_ms = 0;
  std::string slow;
  std::string acks;
  bool die_at_the_end = false;
};

Deadline soon() { return Deadline::after(seconds(60)); }

ps::ModelSpec make_spec(const Options& options, int workers) {
  const bool counting = options.mode != "sync";
  ps::UpdateRule rule{.kind = ps::UpdateRule::Kind::sgd, .lr = counting ? 1.0 : 0.05};
  if (!counting) rule.momentum = 0.9;
  ps::ModelSpec spec{.groups = {rule},
                     .policy = {.mode = ps::parse_mode(options.mode),
                                .aggregate = options.aggregate,
                                .staleness = options.staleness},
                     .workers = workers,
                     .shards = workers};
  for (int block = 0; block < 3; ++block)
    spec.blocks.push_back({.elements = options.elements,
                           .parts = {{fmt::format("layer{}", block), 0, options.elements, 0}}});
  return spec;
}

void fill_gradient(const Options& options, int worker, int workers, std::uint64_t sequence,
                   const std::vector<float>& values, const std::vector<float>& others,
                   std::vector<float>& gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (options.mode != "sync") {
      gradient[i] =
          i % static_cast<std::size_t>(workers) == static_cast<std::size_t>(worker) ? -1.0f : 0.0f;
    } else {
      const auto noise = static_cast<float>(
          (i * 2654435761u + sequence * 40503u + static_cast<std::size_t>(worker) * 97u) % 1009u);
      const float mixed = 50.0f * values[i] + 30.0f * others[i] + noise / 1009.0f;
      gradient[i] = (mixed - std::floor(mixed) - 0.5f) / static_cast<float>(workers);
    }
  }
}

// One write, so that a kill leaves a whole line or none.
void note_acknowledged(int file, std::uint64_t sequence) {
  const std::string line = fmt::format("{}\n", sequence);
  if (file >= 0 && ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw SystemError("cannot write the list of acknowledged pushes", errno);
}

// Where a kill finds some blocks of a step pushed and others not.
void pause(const Options& options) {
  if (options.pause_ms > 0 && (options.slow.empty() || std::filesystem::exists(options.slow)))
    std::this_thread::sleep_for(std::chrono::milliseconds(options.pause_ms));
}

int train(const Options& options, cluster::Session& session, std::optional<RestartState> keep) {
  const cluster::Role& role = session.role();
  ps::ClientOptions connect{.worker = role.rank,
                            .workers = role.size,
                            .chief = role.rank == 0,
                            .incarnation = static_cast<std::uint64_t>(role.incarnation),
                            .servers = role.cluster.addresses(cluster::TaskType::ps),
                            .job = role.job,
                            .secret = session.secret(),
                            .shared_memory = !options.tcp};
  auto client = ps::Client::connect(connect, soon());
  if (keep) keep->allow_restart(true);

  const ps::ModelSpec spec = make_spec(options, role.size);
  std::vector<std::vector<float>> values(spec.blocks.size(), std::vector<float>(options.elements));
  const auto initial_value = [&](int block, std::uint64_t i) {
    return options.mode == "sync"
               ? static_cast<float>((i * 37 + static_cast<std::uint64_t>(block)) % 101) / 50.0f
               : 0.0f;
  };
  const ps::InitialState initial{.read = [&](int block, int slot, std::uint64_t offset,
                                             std::uint64_t elements, std::byte* to) {
    for (std::uint64_t i = 0; i < elements; ++i)
      reinterpret_cast<float*>(to)[i] = slot < 0 ? initial_value(block, offset + i) : 0.0f;
  }};
  const std::uint64_t finished = client->begin(spec, role.rank == 0 ? &initial : nullptr, soon());
  std::vector<ps::BlockRun> runs;
  for (std::size_t block = 0; block < values.size(); ++block)
    runs.push_back({static_cast<int>(block), 0, options.elements,
                    reinterpret_cast<std::byte*>(values[block].data())});
  client->read_after(runs, finished, soon());

  UniqueFd acks;
  if (!options.acks.empty())
    acks.reset(::open(fmt::format("{}/worker-{}", options.acks, role.rank).c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  std::printf("training from %llu\n", static_cast<unsigned long long>(finished + 1));
  std::fflush(stdout);
  std::vector<float> gradient(options.elements);
  for (std::uint64_t sequence = finished + 1; sequence <= options.steps; ++sequence) {
    const double weight = options.mode == "sync" ? 1.0 / role.size : 1.0;
    client->begin_step({sequence, weight, {spec.groups[0].lr}});
    for (std::size_t block = 0; block < values.size(); ++block) {
      fill_gradient(options, role.rank, role.size, sequence, values[block],
                    values[(block + 1) % values.size()], gradient);
      const std::byte* partial = reinterpret_cast<const std::byte*>(gradient.data());
      client->push(static_cast<int>(block), {&partial, 1});
      pause(options);
    }
    client->finish_step({.sequence = sequence, .tally = {{1.0}}, .stop = {}}, runs, soon());
    note_acknowledged(acks.get(), sequence);
  }
  client->read(runs, options.steps, soon());

  std::string bytes;
  for (const auto& block : values)
    bytes.append(reinterpret_cast<const char*>(block.data()), block.size() * sizeof(float));
  std::printf("values %s\n", to_hex(sha256(bytes)).c_str());
  if (options.mode != "sync") {
    std::printf("counts");
    for (int worker = 0; worker < role.size; ++worker)
      std::printf(" %g", static_cast<double>(values[0][static_cast<std::size_t>(worker)]));
    std::printf("\n");
  }
  std::fflush(stdout);
  client->leave(soon());
  if (keep) keep->set_finished();
  if (options.die_at_the_end && role.rank == 1) ::raise(SIGKILL);
  session.done(soon());
  session.close(soon());
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("A training without LibTorch", "ps_program");
  app.add_option("--steps", options.steps);
  app.add_option("--elements", options.elements);
  app.add_option("--mode", options.mode);
  app.add_option("--staleness", options.staleness);
  app.add_option("--aggregate", options.aggregate);
  app.add_option("--durability", options.durability);
  app.add_flag("--tcp", options.tcp);
  app.add_option("--pause", options.pause_ms);
  app.add_option("--slow", options.slow);
  app.add_option("--acks", options.acks);
  app.add_flag("--die-at-the-end", options.die_at_the_end);
  CLI11_PARSE(app, argc, argv);

  const auto environment = cluster::Environment::of_this_process();
  const cluster::Role role = cluster::discover_role(environment, {});
  auto session = cluster::Session::join(role, cluster::SessionOptions::from(environment));
  auto keep = RestartState::from_variables(environment.find_value(kRestartFlagVariable),
                                           environment.find_value(kRestartStateVariable));
  if (role.is_training()) return train(options, *session, std::move(keep));
  ps::ServerOptions serving{
      .server = role.task.index,
      .servers = role.cluster.addresses(cluster::TaskType::ps),
      .bind_host = cluster::is_loopback(role.host()) ? "127.0.0.1" : "",
      .job = role.job,
      .secret = session->secret(),
      .durability = ps::parse_durability(options.durability),
      .folder = std::filesystem::path(role.output) / fmt::format("ps-{}", role.task.index),
      .worker_timeout = seconds(30)};
  ps::serve(*session, std::move(serving), keep ? &*keep : nullptr, Deadline::never());
  session->close(soon());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("ps_program", [&] { return run(argc, argv); });
}
