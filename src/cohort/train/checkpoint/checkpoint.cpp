#include "cohort/train/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/version.h>

#include <cstring>
#include <fstream>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/version.h"
#include "cohort/train/checkpoint/checkpoint_files.h"
#include "cohort/train/checkpoint/durable_file.h"
#include "cohort/train/checkpoint/module_state.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "cohort-checkpoint";
constexpr int kFormatVersion = 1;

void expect_part_name(const std::string& name) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw InvalidInput(fmt::format("a part of a checkpoint cannot be called '{}'", name),
                       {.advice = "Give it a name without a dot."});
}

// What a checkpoint's JSON says.
struct Description {
  TrainingState state;
  fs::path tensors;
  std::uint64_t bytes = 0;
  std::string sha256;
};

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw InvalidInput(fmt::format("'{}' is not a usable checkpoint: {}", path.string(), reason));
}

Description describe(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw InvalidInput(fmt::format("'{}' is a folder", path.string()),
                       {.advice = "Name the .json file of one checkpoint."});
  if (!fs::exists(path, error)) refuse(path, "there is no such file");
  const json content = read_sealed(path);
  try {
    if (content.at("format") != kFormat) refuse(path, "it was not written by Cohort");
    if (content.at("version") != kFormatVersion)
      refuse(path, fmt::format("it has version {} of the format, this is version {}",
                               content.at("version").dump(), kFormatVersion));
    const json& tensors = content.at("tensors");
    const fs::path file = tensors.at("file").get<std::string>();
    if (file != file.filename() || file.empty())
      refuse(path, fmt::format("it names tensors outside its folder, '{}'", file.string()));
    return {training_state_from(content.at("state")), path.parent_path() / file,
            tensors.at("bytes").get<std::uint64_t>(), tensors.at("sha256").get<std::string>()};
  } catch (const json::exception& error) {
    refuse(path, fmt::format("it is incomplete ({})", error.what()));
  }
}

void expect_size(const fs::path& path, const Description& description) {
  struct stat status {};
  if (::stat(description.tensors.c_str(), &status) != 0)
    refuse(path, fmt::format("its tensors' file '{}' is missing", description.tensors.string()));
  if (static_cast<std::uint64_t>(status.st_size) != description.bytes)
    refuse(path, fmt::format("'{}' has {} bytes, {} were saved", description.tensors.string(),
                             status.st_size, description.bytes));
}

void expect_digest(const fs::path& path, const Description& description, const Digest& digest) {
  if (to_hex(digest) != description.sha256)
    refuse(path, fmt::format("'{}' is damaged: its SHA-256 is {}, {} was saved",
                             description.tensors.string(), to_hex(digest), description.sha256));
}

// All that load_checkpoint checks but the tensors' own layout, which the SHA-256 covers.
Description verify(const fs::path& path) {
  auto description = describe(path);
  expect_size(path, description);
  std::ifstream file(description.tensors, std::ios::binary);
  std::string portion(kPortionBytes, '\0');
  Sha256 hash;
  while (file.read(portion.data(), static_cast<std::streamsize>(portion.size())) ||
         file.gcount() > 0)
    hash.update(std::string_view(portion).substr(0, static_cast<std::size_t>(file.gcount())));
  expect_digest(path, description, hash.finish());
  return description;
}

// What `use` makes of the newest checkpoint that it neither refuses nor passes over (nothing).
template <typename Use>
auto newest(const fs::path& folder, Use&& use)
    -> decltype(use(std::declval<const ListedCheckpoint&>())) {
  std::size_t refused = 0;
  for (const auto& candidate : list_checkpoints(folder)) {
    try {
      if (auto found = use(candidate)) return found;
      continue;
    } catch (const InvalidInput& error) {
      log::warning("a checkpoint is refused, the one before is tried: {}", error.what());
    } catch (const SystemError& error) {
      log::warning("a checkpoint is refused, the one before is tried: {}", error.what());
    }
    ++refused;
  }
  if (refused > 0)
    log::error("none of the {} checkpoints in '{}' is usable", refused, folder.string());
  return std::nullopt;
}

void expect_step(const ListedCheckpoint& listed, const TrainingState& state) {
  if (state.step != listed.step)
    refuse(listed.path, fmt::format("it holds step {}; the file was renamed", state.step));
}

Checkpoint load_described(const fs::path& path, Description description) {
  expect_size(path, description);
  auto loaded = load_safetensors(description.tensors);
  expect_digest(path, description, loaded.file.sha256);
  if (description.state.libtorch_version != TORCH_VERSION)
    log::info(
        "'{}' was saved with LibTorch {}, this is {}: further training may differ in its bits",
        path.string(), description.state.libtorch_version, TORCH_VERSION);
  return {std::move(description.state), std::move(loaded.tensors)};
}

}  // namespace

void add_tensors(Checkpoint& checkpoint, const std::string& name, const TensorMap& tensors) {
  expect_part_name(name);
  for (const auto& [key, tensor] : tensors)
    if (!checkpoint.tensors.emplace(name + "." + key, tensor).second)
      throw InvalidInput(fmt::format("the checkpoint has a part '{}' already", name));
}

TensorMap tensors_of(const Checkpoint& checkpoint, const std::string& name) {
  expect_part_name(name);
  const std::string prefix = name + ".";
  TensorMap part;
  for (auto item = checkpoint.tensors.lower_bound(prefix);
       item != checkpoint.tensors.end() && item->first.starts_with(prefix); ++item)
    part.emplace(item->first.substr(prefix.size()), item->second);
  return part;
}

void add_module(Checkpoint& checkpoint, const std::string& name, const torch::nn::Module& module) {
  add_tensors(checkpoint, name, capture_module(module));
}

void add_optimizer(Checkpoint& checkpoint, const std::string& name,
                   const torch::optim::Optimizer& optimizer, const ParameterNames& names) {
  auto captured = capture_optimizer(optimizer, names);
  add_tensors(checkpoint, name, captured.tensors);
  checkpoint.state.optimizers[name] = std::move(captured.scalars);
}

// How many pieces each key has goes into the state: a key may have none.
void add_pieces(Checkpoint& checkpoint, const std::string& name, const NamedPieces& pieces) {
  TensorMap tensors;
  json counts = json::object();
  for (const auto& [key, parts] : pieces) {
    counts[key] = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      torch::Tensor bytes =
          torch::empty({static_cast<std::int64_t>(parts[i].size())}, torch::kUInt8);
      std::memcpy(bytes.data_ptr(), parts[i].data(), parts[i].size());
      tensors.emplace(fmt::format("{}.{}", key, i), std::move(bytes));
    }
  }
  add_tensors(checkpoint, name, tensors);
  checkpoint.state.extra[name] = std::move(counts);
}

NamedPieces pieces_of(const Checkpoint& checkpoint, const std::string& name) {
  NamedPieces pieces;
  if (!checkpoint.state.extra.contains(name)) return pieces;
  const TensorMap tensors = tensors_of(checkpoint, name);
  try {
    for (const auto& [key, count] : checkpoint.state.extra.at(name).items()) {
      auto& parts = pieces[key];
      for (std::size_t i = 0; i < count.get<std::size_t>(); ++i)
        parts.emplace_back(bytes_of(tensors.at(fmt::format("{}.{}", key, i))));
    }
  } catch (const std::exception& error) {
    throw InvalidInput(
        fmt::format("the checkpoint's part '{}' is not whole ({})", name, error.what()));
  }
  return pieces;
}

void restore_module(const Checkpoint& checkpoint, const std::string& name,
                    torch::nn::Module& module) {
  restore_module(module, tensors_of(checkpoint, name));
}

void restore_optimizer(const Checkpoint& checkpoint, const std::string& name,
                       torch::optim::Optimizer& optimizer, const ParameterNames& names) {
  auto scalars = checkpoint.state.optimizers.find(name);
  if (scalars == checkpoint.state.optimizers.end())
    throw InvalidInput(fmt::format("the checkpoint of step {} has no optimizer '{}'",
                                   checkpoint.state.step, name));
  restore_optimizer(optimizer, names, {tensors_of(checkpoint, name), *scalars});
}

fs::path write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint,
                          std::stop_token stop) {
  TrainingState state = checkpoint.state;
  state.cohort_version = kVersion;
  state.libtorch_version = TORCH_VERSION;
  state.saved_at = utc_timestamp();
  json content = {{"format", kFormat}, {"version", kFormatVersion}, {"state", to_json(state)}};

  const fs::path tensors_path = free_tensors_path(folder, state.step);
  DurableFile tensors(tensors_path);
  const auto identity = write_safetensors(
      checkpoint.tensors,
      {{"format", "pt"}, {std::string(kCheckpointMark), std::to_string(state.step)}},
      [&](std::string_view bytes) {
        if (stop.stop_requested())
          throw Error(fmt::format("the checkpoint of step {} was given up", state.step));
        tensors.write(bytes);
      });
  tensors.commit();
  content["tensors"] = {{"file", tensors_path.filename().string()},
                        {"bytes", identity.bytes},
                        {"sha256", to_hex(identity.sha256)}};
  const fs::path path = checkpoint_path(folder, state.step);
  write_durably(path, seal(content));
  remove_replaced(folder, state.step, tensors_path);
  return path;
}

Checkpoint load_checkpoint(const fs::path& path) { return load_described(path, describe(path)); }

std::optional<fs::path> find_latest(const fs::path& folder) {
  return newest(folder, [](const ListedCheckpoint& listed) {
    expect_step(listed, verify(listed.path).state);
    return std::optional(listed.path);
  });
}

std::optional<Checkpoint> load_latest(const fs::path& folder, const StateFilter& wanted) {
  return newest(folder, [&](const ListedCheckpoint& listed) -> std::optional<Checkpoint> {
    auto description = describe(listed.path);
    if (wanted && !wanted(description.state)) return std::nullopt;
    expect_step(listed, description.state);
    return load_described(listed.path, std::move(description));
  });
}

}  // namespace cohort::train
