#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/train/checkpoint/optimizer_state.h"
#include "cohort/train/checkpoint/safetensors.h"
#include "cohort/train/checkpoint/training_state.h"

// Checkpoints: all that training needs to go on with the same bits. docs/checkpoints.md has the
// files and the guarantees.
//
// Rank 0 writes (checkpoint_writer.h is the way that does not hold training up). To resume, either
// every rank reads the folder (rank 0 asks find_latest() and broadcasts the step, the others
// load_checkpoint(checkpoint_path(folder, step))), or rank 0 alone does and broadcasts: the state
// as to_json(state).dump(), the tensors by describe_tensors() and allocate_tensors(), in the map's
// order.
//
// Functions without state; loading may go on while a writer is at work.
namespace cohort::train {

// In the metadata of every checkpoint's tensors, and of no other file.
inline constexpr std::string_view kCheckpointMark = "cohort.step";

struct Checkpoint {
  TrainingState state;
  TensorMap tensors;
};

// Each adds a part under a name of its own ("model", "optimizer", "generator"), without a dot; its
// tensors are called "<name>.<...>" and share the memory of what was added.
void add_module(Checkpoint& checkpoint, const std::string& name, const torch::nn::Module& module);
void add_optimizer(Checkpoint& checkpoint, const std::string& name,
                   const torch::optim::Optimizer& optimizer, const ParameterNames& names);

void add_tensors(Checkpoint& checkpoint, const std::string& name, const TensorMap& tensors);
TensorMap tensors_of(const Checkpoint& checkpoint, const std::string& name);  // none: not saved

// Raw bytes in any number of pieces, by a name that may have dots; "<name>.<key>.<number>".
using NamedPieces = std::map<std::string, std::vector<std::string>>;
void add_pieces(Checkpoint& checkpoint, const std::string& name, const NamedPieces& pieces);
// Nothing for a part that was not saved.
NamedPieces pieces_of(const Checkpoint& checkpoint, const std::string& name);

// InvalidInput, with nothing changed, when the part was not saved or does not fit (module_state.h,
// optimizer_state.h).
void restore_module(const Checkpoint& checkpoint, const std::string& name,
                    torch::nn::Module& module);
void restore_optimizer(const Checkpoint& checkpoint, const std::string& name,
                       torch::optim::Optimizer& optimizer, const ParameterNames& names);

// Writes both files of the step and returns the JSON's path once they are on the disk. Blocks; the
// stop token makes it give up between portions (Error). SystemError names the path.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder,
                                       const Checkpoint& checkpoint, std::stop_token stop = {});

// `path` names the JSON. InvalidInput when it, or its tensors' file, is missing, torn, damaged or
// not a checkpoint; SystemError when the disk fails.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// The newest checkpoint that is complete and whole, of those that are `wanted`. Refused ones are
// named in a warning, with the reason, and the one before is tried. Nothing when there is none, or
// no folder.
std::optional<std::filesystem::path> find_latest(const std::filesystem::path& folder);
using StateFilter = std::function<bool(const TrainingState&)>;
std::optional<Checkpoint> load_latest(const std::filesystem::path& folder,
                                      const StateFilter& wanted = {});

}  // namespace cohort::train
