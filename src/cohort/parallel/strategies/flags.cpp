#include "cohort/parallel/strategies/flags.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/parallel/devices/device_transport.h"

namespace cohort {

int StrategyFlags::replicas_per_worker() const {
  return num_gpus > 0 ? num_gpus : std::max(1, num_replicas);
}

namespace parallel {

namespace {

constexpr int kMaxCount = 1024;

void assign(StrategyFlags& flags, const std::string& name, const std::string& value) {
  if (name == "--distribution_strategy") {
    std::vector<std::string> allowed = strategy_names();
    allowed.insert(allowed.begin(), "off");
    flags.distribution_strategy = choose_flag(name, value, allowed);
  } else if (name == "--num_gpus") {
    flags.num_gpus = count_flag(name, value, 0, kMaxCount);
  } else if (name == "--num_replicas") {
    flags.num_replicas = count_flag(name, value, 1, kMaxCount);
  } else if (name == "--device") {
    flags.device = choose_flag(name, value, {"cpu", "cuda"});
  } else if (name == "--threads") {
    flags.threads = count_flag(name, value, 1, kMaxCount);
  } else if (name == "--matmul") {
    flags.matmul = parse_matrix_products(choose_flag(name, value, {"auto", "torch", "onednn"}));
  } else if (name == "--transport") {
    flags.transport = choose_flag(name, value, {"auto", "gpu", "nccl", "ipc", "host", "mpi"});
  } else if (name == "--shard") {
    flags.shard =
        parse_shard(choose_flag(name, value, {"none", "optimizer", "gradients", "parameters"}));
  } else {
    const bool read = assign_server_flag(flags.servers, name, value);
    COHORT_CHECK(read, "{} is listed but not read", name);
  }
}

void check_together(const StrategyFlags& flags) {
  const bool between_gpus = parse_device_transport(flags.transport) != DeviceTransport::host;
  if (between_gpus && !flags.wants_cuda())
    throw InvalidInput(
        fmt::format("--transport is {}, but the replicas compute on the CPU", flags.transport),
        {.advice = "Add --device cuda or --num_gpus N, or leave --transport out."});
  if (flags.num_gpus > 0 && flags.device == "cpu")
    throw InvalidInput(fmt::format("--num_gpus is {}, but --device is cpu", flags.num_gpus),
                       {.advice = "Leave one of them out."});
  if (flags.num_gpus > 0 && flags.num_replicas > 0 && flags.num_replicas != flags.num_gpus)
    throw InvalidInput(fmt::format("--num_replicas is {}, but --num_gpus is {}", flags.num_replicas,
                                   flags.num_gpus),
                       {.advice = "Every GPU has one replica: leave --num_replicas out."});
  const bool single =
      flags.distribution_strategy == "off" || flags.distribution_strategy == "one_device";
  if (single && flags.replicas_per_worker() > 1)
    throw InvalidInput(fmt::format("--distribution_strategy {} trains one replica, but {} is {}",
                                   flags.distribution_strategy,
                                   flags.num_gpus > 1 ? "--num_gpus" : "--num_replicas",
                                   flags.replicas_per_worker()),
                       {.advice = "Use --distribution_strategy mirrored."});
  const std::string& strategy = flags.distribution_strategy;
  if (!flags.servers.given.empty() && !strategy.empty() && strategy != "parameter_server")
    throw InvalidInput(fmt::format("{} is a flag of parameter_server, but --distribution_strategy "
                                   "is {}",
                                   flags.servers.given.front(), strategy),
                       {.advice = "Leave one of them out."});
  if (strategy == "parameter_server" && flags.replicas_per_worker() > 1)
    throw InvalidInput(fmt::format("--distribution_strategy parameter_server has one replica a "
                                   "worker, but {} is {}",
                                   flags.num_gpus > 1 ? "--num_gpus" : "--num_replicas",
                                   flags.replicas_per_worker()),
                       {.advice = "Start more workers instead."});
  check_server_flags(flags.servers);
}

// "--num-gpus=2" -> {"--num_gpus", "2"}; nothing when the word is not a flag of ours.
struct Word {
  std::string name;
  std::optional<std::string> value;
  bool needs_value = true;
};
std::optional<Word> read_word(const std::string& text) {
  if (!text.starts_with("--")) return std::nullopt;
  const std::size_t equals = text.find('=');
  Word word{"--" + text.substr(2, equals == std::string::npos ? equals : equals - 2), {}};
  std::replace(word.name.begin() + 2, word.name.end(), '-', '_');
  const auto known = strategy_flags_help();
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const FlagHelp& flag) { return flag.name == word.name; });
  if (found == known.end()) return std::nullopt;
  word.needs_value = !found->metavar.empty();
  if (equals != std::string::npos) word.value = text.substr(equals + 1);
  return word;
}

}  // namespace

std::vector<std::string> strategy_names() {
  return {"one_device", "mirrored", "multi_worker_mirrored", "parameter_server"};
}

std::vector<FlagHelp> strategy_flags_help() {
  std::vector<FlagHelp> flags = {
      {"--distribution_strategy", "NAME",
       "off, one_device, mirrored, multi_worker_mirrored or parameter_server; default: what the "
       "launcher says, else what fits the number of workers and replicas"},
      {"--num_gpus", "N", "GPUs a worker, one replica each (default 0: the CPU)"},
      {"--num_replicas", "N", "replicas a worker, without --num_gpus (default 1)"},
      {"--device", "cpu|cuda", "where replicas compute (default: cuda with --num_gpus, else cpu)"},
      {"--threads", "N", "computing threads a replica (default 1; results depend on it)"},
      {"--matmul", "auto|torch|onednn",
       "what multiplies f32 matrices on the CPU: LibTorch's choice, or oneDNN (auto: on processors "
       "with AVX-512 that are not Intel's); results depend on it"},
      {"--transport", "auto|gpu|nccl|ipc|host|mpi",
       "what moves data between workers. auto, host: Cohort's own engine, in the host's memory; "
       "gpu: NCCL or CUDA IPC between GPUs, whichever fits; nccl, ipc: that one; mpi: the MPI that "
       "started the workers"},
      {"--shard", "WHAT",
       "none, optimizer, gradients or parameters: what workers divide among themselves to save "
       "memory (default none)"},
  };
  for (FlagHelp& flag : server_flags_help()) flags.push_back(std::move(flag));
  return flags;
}

std::string strategy_flags_text() {
  std::string text;
  for (const FlagHelp& flag : strategy_flags_help())
    text += fmt::format("  {:<30} {}\n", flag.name + " " + flag.metavar, flag.description);
  return text;
}

ParsedFlags take_strategy_flags(const std::vector<std::string>& arguments) {
  ParsedFlags parsed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      parsed.rest.insert(parsed.rest.end(), arguments.begin() + i, arguments.end());
      break;
    }
    auto word = read_word(arguments[i]);
    if (!word) {
      parsed.rest.push_back(arguments[i]);
      continue;
    }
    if (!word->value && !word->needs_value) word->value = "true";
    if (!word->value) {
      if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))
        throw InvalidInput(
            fmt::format("{} has no value", word->name),
            {.advice = fmt::format("Write {} VALUE or {}=VALUE.", word->name, word->name)});
      word->value = arguments[++i];
    }
    assign(parsed.flags, word->name, *word->value);
  }
  check_together(parsed.flags);
  return parsed;
}

}  // namespace parallel
}  // namespace cohort
