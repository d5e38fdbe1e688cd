#include "cohort/train/checkpoint/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::string advice_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "Free some space, keep fewer checkpoints, or choose another folder.";
    case EFBIG:
      return "Raise the limit on the size of files (ulimit -f), or choose another file system.";
    case EROFS:
    case EACCES:
    case EPERM:
    case ENOENT:
      return "Choose a folder that this user can write to.";
    default:
      return {};
  }
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + std::string(kTemporarySuffix)) {
  fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd_) fail(errno);
}

DurableFile::~DurableFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void DurableFile::write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      fail(errno);
  }
}

void DurableFile::commit() {
  if (::fsync(fd_.get()) != 0) fail(errno);
  if (::close(fd_.release()) != 0) fail(errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  committed_ = true;
  flush_folder(path_.parent_path());
}

void DurableFile::fail(int code) const {
  throw SystemError(fmt::format("cannot write '{}'", path_.string()), code,
                    {.advice = advice_for(code)});
}

void write_durably(const std::filesystem::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write(bytes);
  file.commit();
}

void flush_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  UniqueFd fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems have no such flush: EINVAL says so, and there is nothing to lose
  // then.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL))
    throw SystemError(fmt::format("cannot flush the folder '{}'", name), errno);
}

}  // namespace cohort::train
