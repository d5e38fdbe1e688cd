#include "cohort/ps/durable/log_recovery.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/durable/log_file.h"
#include "cohort/ps/durable/log_folder.h"
#include "cohort/ps/durable/snapshot_file.h"
#include "cohort/ps/state/replay.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {
namespace {

namespace fs = std::filesystem;

void check_owner(const fs::path& path, const LogFileHeader& header,
                 const ServerState::Options& options) {
  if (header.server == static_cast<std::uint32_t>(options.server) &&
      header.servers == static_cast<std::uint32_t>(options.servers))
    return;
  throw InvalidInput(
      fmt::format("'{}' is of server {} of {}, not of server {} of {}", path.string(),
                  header.server, header.servers, options.server, options.servers),
      {.advice = "Start as many servers as wrote the folders, each with its own, or "
                 "name other folders."});
}

[[noreturn]] void fail_damaged(const fs::path& path, std::uint64_t place, const std::string& why) {
  throw Error(fmt::format("'{}' is damaged at byte {}: {}", path.string(), place, why),
              {.advice = "Restore the file, or, to go on from before the damage, delete all logs "
                         "with a higher number and cut this one off there (truncate)."});
}

void truncate_log(const fs::path& path, std::uint64_t size) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 || ::fsync(file.get()) != 0)
    throw SystemError(fmt::format("cannot cut off '{}' at byte {}", path.string(), size), errno);
}

// One recovery.
class Recovery {
 public:
  Recovery(const fs::path& folder, int memory_file, const ServerState::Options& options)
      : folder_(folder), memory_file_(memory_file), options_(options), lock_(folder) {}

  std::unique_ptr<ServerState> run();

 private:
  bool load_snapshot(std::uint64_t number);
  void read_log(std::uint64_t number, bool last);
  void apply(const fs::path& path, std::uint64_t place, const UpdateRecord& record);
  void end_log(const fs::path& path, LogReader& log, bool last);

  const fs::path& folder_;
  const int memory_file_;
  const ServerState::Options& options_;
  const LogFolderLock lock_;
  std::unique_ptr<ServerState> state_;
  LogFileHeader snapshot_;
  std::uint64_t updates_ = 0;
};

std::unique_ptr<ServerState> Recovery::run() {
  LogFolderContents contents = list_log_folder(folder_);
  if (contents.snapshots.empty() && contents.logs.empty()) return nullptr;
  while (!state_) {
    if (contents.snapshots.empty())
      throw Error(
          fmt::format("'{}' has logs but no whole snapshot to begin from", folder_.string()),
          {.advice = "Restore a snapshot, or delete the folder to begin anew."});
    if (!load_snapshot(contents.snapshots.back())) contents.snapshots.pop_back();
  }
  std::erase_if(contents.logs, [&](std::uint64_t number) { return number < snapshot_.number; });
  std::uint64_t expected = snapshot_.number;
  for (std::uint64_t number : contents.logs) {
    if (number != expected)
      throw Error(fmt::format("'{}' is missing", log_path(folder_, expected).string()),
                  {.advice = "Restore it, or delete all logs with a higher number to go on from "
                             "before it."});
    read_log(number, number == contents.logs.back());
    ++expected;
  }
  log::info("recovered the state in '{}': snapshot {} and {} updates after it", folder_.string(),
            snapshot_.number, updates_);
  return std::move(state_);
}

bool Recovery::load_snapshot(std::uint64_t number) {
  fs::path path = snapshot_path(folder_, number);
  std::string damage;
  try {
    auto unless_damaged = [&](auto&& action) {
      try {
        return action();
      } catch (const ProtocolError& error) {
        damage = error.message();
        throw;
      }
    };
    SnapshotReader reader = unless_damaged([&] { return SnapshotReader(path); });
    check_owner(path, reader.header(), options_);
    state_ = state_from_snapshot(memory_file_, options_,
                                 [&] { return unless_damaged([&] { return reader.next(); }); });
    snapshot_ = reader.header();
    return true;
  } catch (const Error&) {
    if (damage.empty()) throw;
  }
  fs::path aside = path.string() + ".damaged";
  log::warning(
      "the snapshot '{}' is damaged ({}); it is now called '{}', and recovery begins from the one "
      "before it",
      path.string(), damage, aside.filename().string());
  if (::rename(path.c_str(), aside.c_str()) != 0)
    throw SystemError(fmt::format("cannot rename '{}'", path.string()), errno);
  return false;
}

void Recovery::read_log(std::uint64_t number, bool last) {
  fs::path path = log_path(folder_, number);
  std::optional<LogReader> log;
  try {
    log.emplace(path);
  } catch (const ProtocolError& error) {
    // A header is durable before anything follows it.
    if (!last || fs::file_size(path) > kLogHeaderBytes) fail_damaged(path, 0, error.message());
    log::warning("'{}' was only just begun ({}); it holds no update and is deleted", path.string(),
                 error.message());
    if (::unlink(path.c_str()) != 0)
      throw SystemError(fmt::format("cannot delete '{}'", path.string()), errno);
    return;
  }
  check_owner(path, log->header(), options_);
  if (log->header().spec != snapshot_.spec || log->header().number != number)
    throw Error(fmt::format("'{}' does not belong to the snapshots beside it", path.string()),
                {.advice = "Restore the folder, or delete it to begin anew."});
  for (std::uint64_t place = log->offset(); auto stored = log->next(); place = log->offset())
    apply(path, place, stored->record);
  end_log(path, *log, last);
}

void Recovery::apply(const fs::path& path, std::uint64_t place, const UpdateRecord& record) {
  try {
    if (replay(*state_, record)) ++updates_;
  } catch (const ProtocolError& error) {
    fail_damaged(path, place, error.message());
  }
}

void Recovery::end_log(const fs::path& path, LogReader& log, bool last) {
  if (log.offset() == log.size()) return;
  if (!last) fail_damaged(path, log.offset(), "the record there is no whole one, and logs follow");
  if (auto behind = log.first_behind_damage())
    fail_damaged(path, log.offset(),
                 fmt::format("the record there is no whole one, but one at byte {} is", *behind));
  log::warning("'{}' ends in a record that is cut off or damaged at byte {}: dropped {} bytes",
               path.string(), log.offset(), log.size() - log.offset());
  truncate_log(path, log.offset());
}

}  // namespace

std::unique_ptr<ServerState> recover_from_disk(const fs::path& folder, int memory_file,
                                               ServerState::Options options) {
  std::error_code unknown;  // then the lock says why
  if (!fs::exists(folder, unknown) && !unknown) return nullptr;
  return Recovery(folder, memory_file, options).run();
}

}  // namespace cohort::ps
