#include "cohort/service/service_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/base/version.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "service.lock";
constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOwnersFolder = 0700;
constexpr std::size_t kSocketNameDigits = 16;
constexpr std::chrono::seconds kForkTime{5};
constexpr std::chrono::milliseconds kDeathTime{500};
constexpr std::chrono::milliseconds kLockPause{5};

void make_private_folder(const fs::path& path) {
  make_own_folder(path);
  if (::chmod(path.c_str(), kOwnersFolder) != 0 && errno != EPERM)
    throw SystemError(fmt::format("cannot keep others out of '{}'", path.string()), errno);
}

std::string text_of(int fd) {
  char buffer[64];
  const ssize_t count = ::pread(fd, buffer, sizeof buffer, 0);
  return escape_controls(
      trim(std::string(buffer, count > 0 ? static_cast<std::size_t>(count) : 0)));
}

bool is_gone(const std::string& pid) {
  const auto number = parse_unsigned(pid);
  return number && ::kill(static_cast<pid_t>(*number), 0) != 0 && errno == ESRCH;
}

}  // namespace

void open_root(const RunFolders& folders) {
  make_private_folder(folders.root);
  make_own_folder(folders.jobs());
  make_own_folder(folders.sources());
}

UniqueFd lock_root(const RunFolders& folders) {
  const fs::path path = folders.root / kLockFile;
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock) throw SystemError(fmt::format("cannot open '{}'", path.string()), errno);
  // A killed service is there until the system has taken its memory back; the process that it was
  // about to start holds its lock until exec().
  const Deadline death = Deadline::after(kDeathTime);
  for (const Deadline limit = Deadline::after(kForkTime);
       ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
    const int error = errno;
    if (error != EWOULDBLOCK)
      throw SystemError(fmt::format("cannot lock '{}'", path.string()), error);
    if (limit.expired() || (death.expired() && !is_gone(text_of(lock.get()))))
      throw InvalidInput(
          fmt::format("a service works with '{}' already: process {}", folders.root.string(),
                      text_of(lock.get())),
          {.advice = "Use that one, end it first, or give another folder with --root."});
    std::this_thread::sleep_for(kLockPause);
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    throw SystemError(fmt::format("cannot write '{}'", path.string()), errno);
  return lock;
}

bool has_root(const RunFolders& folders, const UniqueFd& lock) {
  struct stat locked {};
  struct stat there {};
  return ::fstat(lock.get(), &locked) == 0 &&
         ::stat((folders.root / kLockFile).c_str(), &there) == 0 && locked.st_ino == there.st_ino &&
         locked.st_dev == there.st_dev;
}

fs::path socket_path(const RunFolders& folders) {
  const fs::path whole = fs::absolute(folders.root).lexically_normal();
  const fs::path inside = whole / "service.sock";
  if (inside.string().size() < sizeof(sockaddr_un::sun_path)) return inside;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const fs::path base = runtime && *runtime
                            ? fs::path(runtime) / "cohort"
                            : fs::temp_directory_path() / fmt::format("cohort-{}", ::geteuid());
  make_private_folder(base);
  return base / (to_hex(sha256(whole.string())).substr(0, kSocketNameDigits) + ".sock");
}

ServiceRecord::ServiceRecord(const RunFolders& folders, const fs::path& socket,
                             const std::string& listen)
    : path_(folders.service_record()) {
  nlohmann::ordered_json record = {{"pid", ::getpid()},
                                   {"start_time", process_start_time(::getpid())},
                                   {"socket", socket.string()},
                                   {"listen", nullptr},
                                   {"version", kVersion}};
  if (!listen.empty()) record["listen"] = listen;
  write_file_atomically(path_, record.dump(2) + "\n", kOwnerOnly);
}

ServiceRecord::~ServiceRecord() { ::unlink(path_.c_str()); }

}  // namespace cohort::service
