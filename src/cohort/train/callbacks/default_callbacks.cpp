#include "cohort/train/callbacks/default_callbacks.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cohort/train/callbacks/horovod.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/callbacks/progress.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {

std::vector<std::shared_ptr<Callback>> callbacks_in_order(
    std::vector<std::shared_ptr<Callback>> given, bool progress) {
  std::set<std::filesystem::path> folders;
  for (const auto& callback : given) {
    expect(callback != nullptr, "a callback of the list is null", "Take it out.");
    if (const auto* checkpoints = dynamic_cast<const ModelCheckpoint*>(callback.get()))
      expect(folders.insert(std::filesystem::absolute(checkpoints->folder()).lexically_normal())
                 .second,
             fmt::format("two ModelCheckpoints write to {}", checkpoints->folder().string()),
             "Give each a folder of its own.");
  }
  auto add_missing = [&]<typename C>(std::shared_ptr<C> callback) {
    if (std::none_of(given.begin(), given.end(),
                     [](const auto& other) { return dynamic_cast<C*>(other.get()) != nullptr; }))
      given.push_back(std::move(callback));
  };
  add_missing(std::make_shared<BroadcastGlobalVariables>());
  if (progress) add_missing(std::make_shared<Progress>());
  std::stable_sort(given.begin(), given.end(),
                   [](const auto& a, const auto& b) { return a->order() < b->order(); });
  return given;
}

std::string checkpoint_folder(const std::vector<std::shared_ptr<Callback>>& callbacks) {
  for (const auto& callback : callbacks)
    if (const auto* checkpoints = dynamic_cast<const ModelCheckpoint*>(callback.get()))
      return checkpoints->folder().string();
  return {};
}

}  // namespace cohort::train
