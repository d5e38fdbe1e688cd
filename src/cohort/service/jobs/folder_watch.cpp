#include "cohort/service/jobs/folder_watch.h"

#include <sys/inotify.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "cohort/base/error.h"

namespace cohort::service {

FolderWatch::FolderWatch() : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (!fd_) throw SystemError("watching the folders of jobs", errno);
}

void FolderWatch::add(const std::string& key, const std::filesystem::path& folder) {
  watch(key, folder);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.is_directory(none)) watch(key, entry.path());
}

void FolderWatch::watch(const std::string& key, const std::filesystem::path& folder) {
  const int id =
      ::inotify_add_watch(fd_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
  if (id >= 0) watched_[id] = {key, folder};
}

void FolderWatch::remove(const std::string& key) {
  std::erase_if(watched_, [&](const auto& item) {
    if (item.second.key != key) return false;
    ::inotify_rm_watch(fd_.get(), item.first);
    return true;
  });
}

std::vector<std::string> FolderWatch::changed() {
  std::set<std::string> keys;
  alignas(inotify_event) std::array<char, 16384> bytes;
  for (ssize_t got = 0; (got = ::read(fd_.get(), bytes.data(), bytes.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, bytes.data() + at, sizeof event);
      const char* name = bytes.data() + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      const auto found = watched_.find(event.wd);
      if (found == watched_.end()) continue;
      const Watched there = found->second;
      if (event.mask & IN_IGNORED) {
        watched_.erase(found);
        keys.insert(there.key);
      } else if (event.mask & IN_ISDIR) {
        watch(there.key, there.folder / name);
        keys.insert(there.key);
      } else if (event.mask & IN_MOVED_TO) {
        keys.insert(there.key);
      }
    }
  }
  return {keys.begin(), keys.end()};
}

}  // namespace cohort::service
