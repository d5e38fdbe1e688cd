#include "cohort/service/http/confined_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/net/http_file.h"
#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

constexpr int kReadOnly = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO is not waited for

bool is_confined(const std::string& path) {
  const auto steps = split(path, '/');
  return !steps.empty() && path.find('\0') == std::string::npos &&
         std::none_of(steps.begin(), steps.end(), [](const std::string& step) {
           return step.empty() || step == "." || step == "..";
         });
}

Millis modified_at(const struct stat& status) {
  return Millis{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
}

void list_below(int folder, const std::string& prefix, std::size_t depth, std::size_t most,
                std::vector<FileEntry>& files) {
  if (depth > kMostFolders) return;
  FolderNames names(folder);
  while (const auto name = names.next()) {
    struct stat status {};
    if (::fstatat(folder, name->c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::string path = prefix + "/" + *name;
    if (S_ISREG(status.st_mode)) {
      if (files.size() == most)
        throw ApiError(409, fmt::format("the job has more than {} files", most),
                       {.advice = "Get them as an archive: GET /v1/jobs/JOB/archive"});
      files.push_back({path, static_cast<std::uint64_t>(status.st_size), modified_at(status)});
    } else if (S_ISDIR(status.st_mode)) {
      if (const UniqueFd inner = open_beneath(folder, *name, kReadOnly | O_DIRECTORY))
        list_below(inner.get(), path, depth + 1, most, files);
    }
  }
}

struct FilePart {
  std::uint64_t begin, end;
};

// "bytes=100-199", "bytes=100-", "bytes=-100" (the last ones); nothing for all else.
std::optional<FilePart> asked_part(std::string_view range, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!range.starts_with(kUnit)) return std::nullopt;
  range.remove_prefix(kUnit.size());
  const auto dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_unsigned(range.substr(0, dash));
  const auto last = parse_unsigned(range.substr(dash + 1));
  const bool is_open = dash + 1 == range.size();
  if ((!first && dash > 0) || (!last && !is_open) || (!first && !last)) return std::nullopt;
  if (first && last && *last < *first) return std::nullopt;
  FilePart part{first ? *first : size - std::min(size, *last),
                !first || !last || *last >= size ? size : *last + 1};
  if (part.begin >= size)
    throw ApiError(416, fmt::format("the range '{}' is behind the end: the file has {} bytes",
                                    escape_controls(range), size));
  return part;
}

}  // namespace

UniqueFd open_beneath_by_steps(int folder, const std::string& path, int flags) {
  if (!is_confined(path)) {
    errno = EXDEV;
    return UniqueFd();
  }
  const auto steps = split(path, '/');
  UniqueFd at;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_last = i + 1 == steps.size();
    UniqueFd next(::openat(at ? at.get() : folder, steps[i].c_str(),
                           (is_last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return next;
    at = std::move(next);
  }
  return at;
}

UniqueFd open_beneath(int folder, const std::string& path, int flags) {
  if (!is_confined(path)) {
    errno = EXDEV;
    return UniqueFd();
  }
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  if (errno != ENOSYS && errno != EPERM && errno != EAGAIN) return UniqueFd();
  return open_beneath_by_steps(folder, path, flags);
}

UniqueFd open_folder(const std::filesystem::path& folder) {
  return UniqueFd(::open(folder.c_str(), kReadOnly | O_DIRECTORY | O_NOFOLLOW));
}

FolderNames::FolderNames(int folder) : entries_(nullptr, ::closedir) {
  UniqueFd copy(::openat(folder, ".", kReadOnly | O_DIRECTORY));
  if (!copy) return;
  entries_.reset(::fdopendir(copy.get()));
  if (entries_) copy.release();
}

std::optional<std::string> FolderNames::next() {
  while (const dirent* entry = entries_ ? ::readdir(entries_.get()) : nullptr) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") return name;
  }
  return std::nullopt;
}

std::vector<FileEntry> list_files(const std::vector<FileRoot>& roots, std::size_t most) {
  std::vector<FileEntry> files;
  for (const FileRoot& root : roots)
    if (const UniqueFd folder = open_folder(root.folder))
      list_below(folder.get(), root.prefix, 0, most, files);
  std::sort(files.begin(), files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  return files;
}

HttpResponse file_response(const std::vector<FileRoot>& roots, const std::string& path,
                           const std::string* range) {
  for (const FileRoot& root : roots) {
    if (path.compare(0, root.prefix.size() + 1, root.prefix + "/") != 0) continue;
    const UniqueFd folder = open_folder(root.folder);
    if (!folder) continue;
    UniqueFd file = open_beneath(folder.get(), path.substr(root.prefix.size() + 1), kReadOnly);
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto part = range ? asked_part(*range, size) : std::nullopt;
    HttpResponse response;
    response.headers.emplace_back("Accept-Ranges", "bytes");
    if (part) {
      response.status = 206;
      response.headers.emplace_back(
          "Content-Range", fmt::format("bytes {}-{}/{}", part->begin, part->end - 1, size));
    }
    const std::uint64_t begin = part ? part->begin : 0, end = part ? part->end : size;
    response.stream = make_file_stream(std::move(file), begin, end - begin);
    return response;
  }
  throw ApiError(404, fmt::format("the job has no file '{}'", escape_controls(path)),
                 {.advice = "GET /v1/jobs/JOB/files lists them."});
}

}  // namespace cohort::service
