#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

// As fit() calls them: `given`, the broadcast at the beginning and, with `progress`, the progress
// line where the list has none, by order(). InvalidInput for a null pointer, and for two
// ModelCheckpoints with one folder.
std::vector<std::shared_ptr<Callback>> callbacks_in_order(
    std::vector<std::shared_ptr<Callback>> given, bool progress);

// Where the first ModelCheckpoint of the list writes; empty: there is none.
std::string checkpoint_folder(const std::vector<std::shared_ptr<Callback>>& callbacks);

}  // namespace cohort::train
