#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/cluster/environment.h"
#include "cohort/collective/world.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/own_ranks.h"
#include "cohort/tools/tune_choice.h"
#include "cohort/transport/store_rendezvous.h"

namespace cohort::tools {
namespace {

using collective::Buffer;
using collective::Group;
using collective::TuningTable;

constexpr const char* kTuneExamples = R"(
Examples:
  cohort tune
      four processes; writes cohort-tuning.json
  cohort tune -n 8 --output node.json
  COHORT_TUNING=node.json cohort run -n 8 -- ./train
      uses it
)";
constexpr int kMaxRanks = 64;

struct TuneArguments {
  int ranks = 4;
  std::string output = "cohort-tuning.json";
  bool as_rank = false;
};

// One thing that is decided: algorithms, each forced by a table of its own.
struct Contest {
  std::string title;
  bool between_hosts;
  bool is_broadcast;
  std::vector<std::size_t> sizes;
  std::vector<std::string> names;
  std::vector<TuningTable> tables;
  void (TableBuilder::*enter)(int, const std::vector<Measurement>&);
};

std::vector<Contest> contests() {
  TuningTable none;
  none.inlined = none.exchange_all = none.recursive_doubling = none.flat_broadcast = {};
  TuningTable inlined = none, exchange_all = none, doubling = none, flat = none;
  inlined.inlined = {{2, TuningTable::kMaxInlined}};
  exchange_all.exchange_all = doubling.recursive_doubling = {{2, TuningTable::kMaxSmall}};
  flat.flat_broadcast = {{2, TuningTable::kMaxSmall}};
  const std::vector<std::size_t> sizes{64, 256, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
  return {{"all_reduce inside a host",
           false,
           false,
           {64, 256, 1024, 2048, 4096},
           {"inlined", "direct"},
           {inlined, none},
           &TableBuilder::inside},
          {"all_reduce between hosts",
           true,
           false,
           sizes,
           {"exchange all", "doubling", "reduce-scatter"},
           {exchange_all, doubling, none},
           &TableBuilder::between},
          {"broadcast between hosts",
           true,
           true,
           sizes,
           {"flat", "binomial"},
           {flat, none},
           &TableBuilder::broadcast}};
}

// 2, 3, 4, 8, 16, ..., most.
std::vector<int> counts_up_to(int most) {
  std::vector<int> counts;
  for (int count = 2; count < most; count += count < 4 ? 1 : count) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

// One rank's part. `world` is the group of all; only the first `count` ranks measure.
class Tuner {
 public:
  Tuner(collective::World& world, const cluster::Environment& environment)
      : world_(*world.group),
        session_(*world.session),
        network_(collective::NetworkOptions::from(environment, session_.role())) {}

  // Seconds for each size and algorithm; empty on ranks that do not take part.
  std::vector<Measurement> run(const Contest& contest, int count) {
    std::vector<std::unique_ptr<Group>> groups;
    if (world_.rank() < count)
      for (std::size_t i = 0; i < contest.tables.size(); ++i)
        groups.push_back(form(contest.tables[i], contest.between_hosts, count,
                              fmt::format("{}/{}/{}", contest.title, count, contest.names[i])));
    std::vector<Measurement> result;
    for (const std::size_t bytes : contest.sizes)
      if (!groups.empty()) result.push_back({bytes, compete(groups, contest, bytes)});
    groups.clear();
    world_.barrier();
    return result;
  }

 private:
  std::unique_ptr<Group> form(const TuningTable& table, bool hosts, int count,
                              const std::string& id) {
    collective::NetworkOptions network = network_;
    network.tuning = table;
    collective::FormOptions options{.id = id, .authenticate = {}, .connect = {}};
    use_network(options, network);
    const int rank = world_.rank();
    return form_group(
        {.rank = rank,
         .size = count,
         .task = to_string(session_.role().task),
         .host = {},
         .host_identity = hosts ? fmt::format("made-up-{}", rank) : ""},
        std::make_shared<transport::StoreRendezvous>(session_.store(), session_.key("tune")),
        options, Deadline::after(std::chrono::seconds(60)));
  }

  static void call(Group& group, std::span<float> values, bool is_broadcast) {
    if (is_broadcast)
      group.broadcast(values, 0);
    else
      group.all_reduce(values);
  }

  static void verify(Group& group, std::span<float> values, bool is_broadcast) {
    const auto at = [](std::size_t i, int rank) { return static_cast<float>(i % 7) + rank; };
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = at(i, group.rank());
    call(group, values, is_broadcast);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float expected = is_broadcast ? at(i, 0) : 0;
      for (int rank = 0; rank < group.size() && !is_broadcast; ++rank) expected += at(i, rank);
      if (values[i] != expected)
        throw Error(fmt::format("element {} of {} is {} instead of {}", i, values.size(), values[i],
                                expected));
    }
    std::fill(values.begin(), values.end(), 0.0f);
  }

  // The algorithms take turns, in an order that is drawn anew for each round, the same on all
  // ranks: neither what else the machine does nor which one ran before favours any of them. The
  // time of a round is that of its slowest rank.
  static std::vector<double> compete(const std::vector<std::unique_ptr<Group>>& groups,
                                     const Contest& contest, std::size_t bytes) {
    const std::size_t rounds = std::clamp<std::size_t>((40 << 20) / bytes, 60, 300);
    std::vector<Buffer> buffers;
    for (const auto& group : groups) {
      buffers.push_back(group->allocate(bytes));
      verify(*group, buffers.back().as<float>(), contest.is_broadcast);
    }
    std::vector<std::vector<double>> times(groups.size(), std::vector<double>(rounds));
    std::vector<std::size_t> order(groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(1);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        groups[i]->barrier();
        const auto begin = std::chrono::steady_clock::now();
        call(*groups[i], buffers[i].as<float>(), contest.is_broadcast);
        times[i][round] =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
    }
    std::vector<double> medians;
    for (auto& each : times) {
      groups[0]->all_reduce(std::span(each), {.op = collective::ReduceOp::maximum});
      std::nth_element(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(rounds / 2),
                       each.end());
      medians.push_back(each[rounds / 2]);
    }
    return medians;
  }

  Group& world_;
  cluster::Session& session_;
  collective::NetworkOptions network_;
};

std::size_t chosen(const Contest& contest, const TuningTable& table, int count, std::size_t bytes) {
  if (!contest.between_hosts) return bytes <= table.inline_bytes(count) ? 0 : 1;
  return contest.is_broadcast ? static_cast<std::size_t>(table.broadcast(count, bytes))
                              : static_cast<std::size_t>(table.all_reduce(count, bytes));
}

void print(const Contest& contest, const TuningTable& table, int count,
           const std::vector<Measurement>& measured) {
  fmt::print("\n{}, {} {}: median us, the slowest rank's\n{:>10}", contest.title, count,
             contest.between_hosts ? "hosts" : "ranks", "bytes");
  for (const auto& name : contest.names) fmt::print(" {:>15}", name);
  fmt::print("   chosen\n");
  for (const auto& each : measured) {
    fmt::print("{:>10}", each.bytes);
    for (const double time : each.times) fmt::print(" {:>15.1f}", time * 1e6);
    fmt::print("   {}\n", contest.names[chosen(contest, table, count, each.bytes)]);
  }
  std::fflush(stdout);
}

int run_rank(const TuneArguments& arguments) {
  const auto environment = cluster::Environment::of_this_process();
  auto world = collective::join_world(environment, {});
  const bool speaks = world.group->rank() == 0;
  TableBuilder builder;
  {
    Tuner tuner(world, environment);
    for (const Contest& contest : contests())
      for (const int count : counts_up_to(world.group->size())) {
        if (contest.is_broadcast && count == 2) continue;  // flat and binomial are the same
        const auto measured = tuner.run(contest, count);
        if (!speaks) continue;
        (builder.*contest.enter)(count, measured);
        print(contest, builder.measured(), count, measured);
      }
  }
  if (speaks) {
    write_file_atomically(arguments.output,
                          builder.finish(world.group->size()).to_json(/*pretty=*/true));
    fmt::print(
        "\nevery result was checked; a row's choice follows from all rows of its table\n"
        "with 2 hosts, exchange all and doubling are the same steps, and so are flat and binomial\n"
        "with 3: how far their times differ shows how far this measurement can be off\n"
        "for more than {} ranks or hosts the table keeps the defaults\n"
        "wrote {}; use it with: COHORT_TUNING={} cohort run ...\n",
        world.group->size(), arguments.output, arguments.output);
    std::fflush(stdout);
  }
  world.leave();
  return 0;
}

int start_ranks(const TuneArguments& arguments) {
  const auto file = std::filesystem::absolute(arguments.output);
  if (!std::filesystem::is_directory(file.parent_path()))
    throw InvalidInput(fmt::format("--output: the folder of '{}' does not exist", file.string()),
                       {.advice = "Make it, or name another file."});
  return run_own_ranks(arguments.ranks, {"tune", "--output", file.string()},
                       {{"COHORT_TUNING", ""}});
}

}  // namespace

Command tune_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<TuneArguments>();
    app.description("Measures the collective algorithms on this machine and writes which to use.");
    app.footer(kTuneExamples);
    app.add_option("-n,--ranks", arguments->ranks, "Processes")->capture_default_str();
    app.add_option("--output", arguments->output, "The table to write")
        ->type_name("FILE")
        ->capture_default_str();
    app.add_flag("--as-rank", arguments->as_rank)->group("");  // how it starts itself
    return [arguments](const Words&, const Words&) {
      if (arguments->ranks < 2 || arguments->ranks > kMaxRanks)
        throw InvalidInput(
            fmt::format("-n must be from 2 to {}, got {}", kMaxRanks, arguments->ranks));
      return arguments->as_rank ? run_rank(*arguments) : start_ranks(*arguments);
    };
  };
  return {"tune", "measure the collective algorithms here and write which to use", "[options]",
          declare};
}

}  // namespace cohort::tools
