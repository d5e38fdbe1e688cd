#include "cohort/train/checkpoint/weights_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/train/checkpoint/checkpoint.h"

namespace cohort::train {
namespace {

// The part that a Trainer saves a model under.
constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr const char* kHubFile = "model.safetensors";
constexpr const char* kHubIndex = "model.safetensors.index.json";

TensorMap weights_of(const Checkpoint& checkpoint) {
  TensorMap weights;
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.starts_with(kModelPrefix)) weights.emplace(name.substr(kModelPrefix.size()), tensor);
  return weights;
}

[[noreturn]] void refuse_index(const std::filesystem::path& path, const std::string& reason) {
  throw InvalidInput(
      fmt::format("'{}' is not a usable index of safetensors files: {}", path.string(), reason),
      {.advice = "Fetch the index and the files that it names again, into one folder."});
}

// Tensor by tensor, in which file it is.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const auto parsed = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  const auto map = parsed.is_object() ? parsed.find("weight_map") : parsed.end();
  if (map == parsed.end() || !map->is_object()) refuse_index(path, "it has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) refuse_index(path, fmt::format("tensor '{}' has no file", tensor));
    const std::filesystem::path name = file.get<std::string>();
    if (name.empty() || name != name.filename() || name == ".." || name == ".")
      refuse_index(path, fmt::format("tensor '{}' is in '{}', which is no file beside the index",
                                     tensor, name.string()));
    files.emplace(tensor, name.string());
  }
  return files;
}

TensorMap read_indexed(const std::filesystem::path& path) {
  std::map<std::string, TensorMap> loaded;
  TensorMap tensors;
  for (const auto& [tensor, file] : read_index(path)) {
    auto found = loaded.find(file);
    if (found == loaded.end())
      found = loaded.emplace(file, load_safetensors(path.parent_path() / file).tensors).first;
    const auto value = found->second.find(tensor);
    if (value == found->second.end())
      refuse_index(path, fmt::format("tensor '{}' is not in '{}'", tensor, file));
    tensors.emplace(tensor, value->second);
  }
  return tensors;
}

TensorMap read_folder(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / kHubIndex)) return read_indexed(path / kHubIndex);
  if (std::filesystem::exists(path / kHubFile)) return load_safetensors(path / kHubFile).tensors;
  if (const auto latest = load_latest(path)) return weights_of(*latest);
  throw InvalidInput(fmt::format("{} has no good checkpoint", path.string()),
                     {.advice = "Give a folder that a ModelCheckpoint has written to, or one with "
                                "a model.safetensors."});
}

}  // namespace

TensorMap read_weights(const std::filesystem::path& path) {
  if (path.filename().string().ends_with(kIndexSuffix)) return read_indexed(path);
  if (path.extension() == ".json") return weights_of(load_checkpoint(path));
  if (std::filesystem::is_directory(path)) return read_folder(path);
  LoadedTensors file = load_safetensors(path);
  // The tensors of a checkpoint, given by themselves, have the optimizer's beside them.
  if (file.metadata.contains(std::string(kCheckpointMark)))
    return weights_of({.state = {}, .tensors = std::move(file.tensors)});
  return std::move(file.tensors);
}

}  // namespace cohort::train
