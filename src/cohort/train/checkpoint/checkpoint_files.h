#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

// A folder of checkpoints, without LibTorch: which files there are, what belongs together, what may
// go.
//
//   step-00001234.safetensors   tensors
//   step-00001234.json          the rest; names the tensors' file. Written last: the commit point.
//   best.json                   which step is the best so far
//   *.tmp                       not finished: of a writer at work, or of one that was killed
//
// A step that is saved again puts its tensors into step-00001234-2.safetensors, so that the first
// stays whole until the new JSON has replaced the old one. One process writes to a folder at a time
// (checkpoint_writer.h holds a lock); any number read.
namespace cohort::train {

// "step-00001234"
std::string checkpoint_stem(std::int64_t step);
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);

struct ListedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;  // of the JSON
};

// By their names alone, the highest step first. Empty when there is no such folder; SystemError
// when it cannot be read.
std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& folder);

// The name of a tensors file for `step` that no file has.
std::filesystem::path free_tensors_path(const std::filesystem::path& folder, std::int64_t step);

// {"checkpoint": content, "sha256": of content's compact text}, as text; and back. InvalidInput
// names the file and says how it is not what was written.
std::string seal(const nlohmann::json& content);
nlohmann::json unseal(const std::string& text, const std::filesystem::path& path);
nlohmann::json read_sealed(const std::filesystem::path& path);

struct BestCheckpoint {
  std::int64_t step = 0;
  std::string metric;
  double value = 0;
};

void mark_best(const std::filesystem::path& folder, const BestCheckpoint& best);
// Nothing when none is marked; InvalidInput when best.json is damaged.
std::optional<BestCheckpoint> find_best(const std::filesystem::path& folder);

// Removes tensors of `step` in other files than `used`: those that a new save has replaced.
void remove_replaced(const std::filesystem::path& folder, std::int64_t step,
                     const std::filesystem::path& used);

// Removes what a killed writer left: temporary files, and tensors that no JSON names. Files with
// other names are not touched. Returns what it removed.
std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& folder);

// Removes checkpoints before `current` (a step just saved) beyond the last `keep`, itself counted.
// Never the best, never a later step's.
void remove_old(const std::filesystem::path& folder, std::int64_t current, std::size_t keep);

}  // namespace cohort::train
