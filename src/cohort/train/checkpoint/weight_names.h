#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::train {

// A name in a file and what the module calls the tensor. '*' in `file` stands for any text; each
// '*' of `module` for what the one in the same place stood for. `module` empty: not wanted.
struct WeightRename {
  std::string file;
  std::string module;
};

// How the tensors of another program's file and those of a module belong together. The same mapping
// serves both ways, for reading and for writing.
//
//   {.prefix = "transformer.",
//    .rename = {{"h.*.attn.bias", ""}, {"h.*.attn.c_attn.*", "blocks.*.qkv.*"}},
//    .transposed = {"blocks.*.qkv.weight"}}
struct WeightMapping {
  std::string prefix;                // taken off names that begin with it, before `rename`
  std::vector<WeightRename> rename;  // the first that matches counts; without one a name stays
  // The module's names, with '*': matrices that the file holds with rows and columns swapped, as
  // GPT-2's Conv1D keeps its weights.
  std::vector<std::string> transposed;
};

// Names under a mapping. Immutable, thread-safe to read.
class WeightNames {
 public:
  // InvalidInput for a rename whose `module` has more '*' than its `file`.
  explicit WeightNames(WeightMapping mapping);

  // What the module calls it; nothing for what is not wanted.
  std::optional<std::string> module_name(std::string_view file_name) const;
  // The way back. InvalidInput names a name that would not be read as itself again.
  std::string file_name(std::string_view module_name) const;
  bool is_transposed(std::string_view module_name) const;

 private:
  WeightMapping mapping_;
};

}  // namespace cohort::train
