#pragma once

#include <dirent.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/net/http_message.h"
#include "cohort/base/unique_fd.h"
#include "cohort/service/store/run_store.h"

// Files of a job as the API names them. A path never leads out of its folder: every step of it is
// opened below the last one, and symbolic links are not followed. Functions without state.
namespace cohort::service {

constexpr std::size_t kMostFolders = 64;  // one in the other; what lies deeper is left out

// One folder of a job, and how the paths in it begin: "model", "logs/1".
struct FileRoot {
  std::string prefix;
  std::filesystem::path folder;
};

struct FileEntry {
  std::string path;
  std::uint64_t bytes = 0;
  Millis modified = 0;
};

// Opens `path` below `folder`; nothing of it may be a symbolic link, "..", empty or absolute.
// Invalid, with errno set, when that cannot be (EXDEV, ELOOP: it leads out).
UniqueFd open_beneath(int folder, const std::string& path, int flags);
// The same without openat2(), which older kernels and some sandboxes lack.
UniqueFd open_beneath_by_steps(int folder, const std::string& path, int flags);

// The folder itself; invalid where it is not there or a symbolic link.
UniqueFd open_folder(const std::filesystem::path& folder);

// The names in a folder without "." and "..", one at a time, as the system has them.
class FolderNames {
 public:
  explicit FolderNames(int folder);  // one that cannot be read has none
  std::optional<std::string> next();

 private:
  std::unique_ptr<DIR, int (*)(DIR*)> entries_;
};

// The regular files of all roots, sorted by path. Throws ApiError (409) for more than `most`.
std::vector<FileEntry> list_files(const std::vector<FileRoot>& roots, std::size_t most);

// A regular file's bytes as an answer, or those that `range` (the header, "bytes=0-99") names: 206.
// Several ranges, and what is no range, give the whole file. Throws ApiError (404; 416 for a range
// behind the end).
HttpResponse file_response(const std::vector<FileRoot>& roots, const std::string& path,
                           const std::string* range = nullptr);

}  // namespace cohort::service
