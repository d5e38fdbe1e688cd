#include "cohort/sdk/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/jobspec/source/tar_format.h"

namespace cohort::sdk {
namespace {

namespace fs = std::filesystem;
using jobspec::TarEntry;

// What must come, and its size.
std::vector<JobFile> files_of_part(ServiceClient& client, const std::string& job,
                                   const std::string& part) {
  std::vector<JobFile> files = client.files(job);
  if (part != "all")
    std::erase_if(files, [&](const JobFile& file) { return !file.path.starts_with(part + "/"); });
  return files;
}

// Bytes that come in pieces, as many at a time as a reader wants.
class PieceReader {
 public:
  explicit PieceReader(std::function<std::string()> next) : next_(std::move(next)) {}

  std::size_t operator()(char* buffer, std::size_t size) {
    std::size_t filled = 0;
    while (filled < size) {
      if (used_ == piece_.size()) {
        piece_ = next_();
        used_ = 0;
        if (piece_.empty()) break;
      }
      const std::size_t count = std::min(size - filled, piece_.size() - used_);
      std::memcpy(buffer + filled, piece_.data() + used_, count);
      filled += count;
      used_ += count;
    }
    return filled;
  }

 private:
  std::function<std::string()> next_;
  std::string piece_;
  std::size_t used_ = 0;
};

// Writes the files of an archive below a folder, without trusting it: whatever names it holds and
// whatever links lie there, nothing is made elsewhere.
class FolderWriter {
 public:
  explicit FolderWriter(const fs::path& folder) : path_(folder) {
    std::error_code code;
    fs::create_directories(folder, code);
    folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) fail("");
  }

  // The folder of these parts, over no link; made where it is not there.
  UniqueFd enter(const std::vector<std::string>& parts) const {
    UniqueFd folder(::fcntl(folder_.get(), F_DUPFD_CLOEXEC, 0));
    for (const auto& part : parts) {
      if (::mkdirat(folder.get(), part.c_str(), 0777) != 0 && errno != EEXIST) fail(part);
      folder.reset(
          ::openat(folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!folder) fail(part);
    }
    return folder;
  }

  UniqueFd create(std::vector<std::string> parts, bool executable) const {
    const std::string name = parts.back();
    parts.pop_back();
    const UniqueFd folder = enter(parts);
    UniqueFd file(::openat(folder.get(), name.c_str(),
                           O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                           executable ? 0777 : 0666));
    if (!file) fail(name);
    return file;
  }

  void write(int file, std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) fail("");
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

 private:
  // "": the folder as such.
  [[noreturn]] void fail(const std::string& name) const {
    const int code = errno;
    throw SystemError(name.empty() ? fmt::format("cannot write to the folder '{}'", path_.string())
                                   : fmt::format("cannot write '{}' in '{}'", escape_controls(name),
                                                 path_.string()),
                      code);
  }

  fs::path path_;
  UniqueFd folder_;
};

std::vector<std::string> safe_parts(const std::string& path) {
  const auto parts = split(path, '/');
  for (const auto& part : parts)
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos)
      throw InvalidInput(
          fmt::format("the archive's path '{}' leads out of its folder", escape_controls(path)));
  if (parts.empty()) throw InvalidInput("the archive holds an entry without a name");
  return parts;
}

void require_whole(const std::vector<JobFile>& listed,
                   const std::map<std::string, std::uint64_t>& came) {
  for (const auto& file : listed) {
    const auto found = came.find(file.path);
    if (found != came.end() && found->second == file.bytes) continue;
    throw Error(fmt::format("'{}' came with {} of {} bytes", escape_controls(file.path),
                            found == came.end() ? 0 : found->second, file.bytes),
                {.advice = "Download it again."});
  }
}

}  // namespace

Downloaded download_files(ServiceClient& client, const std::string& job, const std::string& part,
                          const fs::path& folder,
                          const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const bool has_ended = client.job(job).has_ended();
  const auto listed = files_of_part(client, job, part);
  std::uint64_t all = 0;
  for (const auto& file : listed) all += file.bytes;

  Downloaded done;
  std::map<std::string, std::uint64_t> came;
  jobspec::TarReader archive(PieceReader(client.archive(job, part)));
  const FolderWriter writer(folder);
  std::array<char, 64 * 1024> buffer;
  while (const auto entry = archive.next()) {
    const auto parts = safe_parts(entry->path);
    if (entry->kind == TarEntry::Kind::folder) {
      writer.enter(parts);
    } else if (entry->kind != TarEntry::Kind::file) {
      ++done.left_out;
    } else {
      const UniqueFd file = writer.create(parts, entry->executable);
      came[entry->path] = entry->size;
      while (const std::size_t count = archive.read(buffer.data(), buffer.size())) {
        writer.write(file.get(), {buffer.data(), count});
        done.bytes += count;
        if (progress) progress(done.bytes, all);
      }
    }
  }
  if (has_ended) require_whole(listed, came);
  done.files = came.size();
  return done;
}

}  // namespace cohort::sdk
