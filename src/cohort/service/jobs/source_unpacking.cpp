#include "cohort/service/jobs/source_unpacking.h"

#include <chrono>
#include <future>
#include <map>

#include "cohort/service/store/background.h"
#include "cohort/service/store/source_store.h"

namespace cohort::service {
namespace {

constexpr std::chrono::milliseconds kShortWait{100};
constexpr std::chrono::milliseconds kNoWait{0};

}  // namespace

struct SourceUnpacking::State {
  explicit State(RunFolders given) : folders(std::move(given)) {}

  const RunFolders folders;
  std::map<std::string, std::future<std::filesystem::path>> under_way;  // by SHA-256
  Background background{1};                                             // ends first
};

SourceUnpacking::SourceUnpacking(RunFolders folders)
    : state_(std::make_unique<State>(std::move(folders))) {}

SourceUnpacking::~SourceUnpacking() = default;

std::optional<std::filesystem::path> SourceUnpacking::find(const std::string& sha256) {
  auto found = state_->under_way.find(sha256);
  const bool is_new = found == state_->under_way.end();
  if (is_new) {
    const auto task = std::make_shared<std::packaged_task<std::filesystem::path()>>(
        [folders = state_->folders, sha256] { return unpacked_source(folders, sha256); });
    found = state_->under_way.emplace(sha256, task->get_future()).first;
    state_->background.post([task] { (*task)(); });
  }
  if (found->second.wait_for(is_new ? kShortWait : kNoWait) != std::future_status::ready)
    return std::nullopt;
  auto result = std::move(found->second);
  state_->under_way.erase(found);
  return result.get();
}

}  // namespace cohort::service
