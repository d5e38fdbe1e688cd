#include "cohort/cluster/session/meeting.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/process.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/base/text.h"

namespace cohort::cluster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNote = ".note";
constexpr const char* kSecret = ".secret";
constexpr std::size_t kMaxName = 150;
constexpr auto kLongestLook = std::chrono::milliseconds(100);
// A note younger than this is not swept away: its job may be coming back.
constexpr auto kSweepAfter = std::chrono::minutes(1);

struct Note {
  Address store;
  std::string process;  // process_identity
  std::string secret;   // name of the file; empty: none
};

// Three lines. Nothing for any other text.
std::optional<Note> parse_note(const std::string& text) {
  const auto lines = split(text, '\n');
  if (lines.size() != 4 || !lines[0].starts_with("store ") || !lines[1].starts_with("process ") ||
      !lines[2].starts_with("secret "))
    return std::nullopt;
  const std::string secret = lines[2].substr(7);
  if (secret.find('/') != std::string::npos) return std::nullopt;
  try {
    return Note{parse_address(lines[0].substr(6)), lines[1].substr(8),
                secret == "none" ? "" : secret};
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

std::optional<Note> find_note(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  try {
    return parse_note(read_file(path));
  } catch (const SystemError& error) {  // it has just been removed
    log::debug("no note: {}", error.what());
    return std::nullopt;
  }
}

void remove_quietly(const fs::path& path) {
  std::error_code code;
  fs::remove(path, code);
}

void sweep(const fs::path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != kNote) continue;
    const auto age = fs::file_time_type::clock::now() - entry.last_write_time(code);
    const auto note = code || age < kSweepAfter ? std::nullopt : find_note(entry.path());
    if (!note || !process_ended(note->process)) continue;
    remove_quietly(entry.path());
    if (!note->secret.empty()) remove_quietly(folder / note->secret);
  }
}

}  // namespace

fs::path meeting_folder(const std::string& given, const std::string& runtime) {
  fs::path folder = given;
  if (given.empty())
    folder = runtime.empty() ? fs::path(fmt::format("/tmp/cohort-{}", ::geteuid()))
                             : fs::path(runtime) / "cohort";
  const std::string advice = "Set COHORT_MEET=DIR to a folder of your own.";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw InvalidInput(
        SystemError(fmt::format("cannot make the folder '{}', in which the tasks would meet",
                                folder.string()),
                    errno)
            .message(),
        {.advice = advice});
  struct stat status {};
  const bool found =
      given.empty() ? ::lstat(folder.c_str(), &status) == 0 : ::stat(folder.c_str(), &status) == 0;
  if (!found || !S_ISDIR(status.st_mode))
    throw InvalidInput(
        fmt::format("'{}', in which the tasks would meet, is not a folder", folder.string()),
        {.advice = advice});
  if (given.empty() && (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0))
    throw InvalidInput(fmt::format("the folder '{}', in which the tasks would meet, belongs to uid "
                                   "{} and has mode {:04o}",
                                   folder.string(), status.st_uid, status.st_mode & 07777),
                       {.advice = advice});
  return folder;
}

std::string meeting_name(const std::string& launch) {
  std::string name = launch.substr(0, kMaxName);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '_';
  return name;
}

MeetingNote::MeetingNote(const fs::path& folder, const std::string& name, const Address& store,
                         const std::optional<Secret>& made)
    : note_(folder / (name + kNote)) {
  if (const auto other = find_note(note_); other && !process_ended(other->process)) {
    const auto words = split(other->process, ' ');
    // Of another host it cannot be known whether it still runs; the newer one counts.
    if (process_identity(static_cast<pid_t>(parse_unsigned(words[2]).value_or(0))) ==
        other->process)
      throw InvalidInput(
          fmt::format("process {} hosts the store of another job of the same name already ('{}')",
                      words[2], note_.string()),
          {.advice = "Set COHORT_JOB to a name of its own for each job."});
  }
  sweep(folder);
  const std::string self = process_identity(::getpid());
  if (made) {
    const auto words = split(self, ' ');
    secret_ = folder / fmt::format("{}.{}-{}{}", name, words[2], words[3], kSecret);
    remove_quietly(secret_);
    made->write_file(secret_);
  }
  text_ = fmt::format("store {}\nprocess {}\nsecret {}\n", to_string(store), self,
                      made ? secret_.filename().string() : "none");
  write_file_atomically(note_, text_);
}

MeetingNote::~MeetingNote() {
  try {
    if (fs::exists(note_) && read_file(note_) == text_) fs::remove(note_);
  } catch (const std::exception& error) {
    log::debug("a note stays behind: {}", error.what());
  }
  if (!secret_.empty()) remove_quietly(secret_);
}

std::optional<StoreAccess> read_meeting_note(const fs::path& folder, const std::string& name) {
  const auto note = find_note(folder / (name + kNote));
  if (!note || process_ended(note->process)) return std::nullopt;
  if (note->secret.empty()) return StoreAccess{note->store, std::nullopt};
  std::error_code code;
  if (!fs::exists(folder / note->secret, code)) return std::nullopt;  // rank 0 has just left
  return StoreAccess{note->store, Secret::from_file(folder / note->secret)};
}

MeetingWatch::MeetingWatch(const fs::path& folder)
    : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (events_) ::inotify_add_watch(events_.get(), folder.c_str(), IN_MOVED_TO | IN_CREATE);
}

void MeetingWatch::await_change(Deadline deadline) {
  WaitInterrupt::ask();
  pollfd entry{events_.get(), POLLIN, 0};
  const auto limit = std::min(deadline.when(), Deadline::Clock::now() + kLongestLook);
  ::poll(&entry, events_ ? 1 : 0, Deadline::at(limit).poll_timeout_ms());
  char seen[4096];
  while (events_ && ::read(events_.get(), seen, sizeof seen) > 0) continue;
}

}  // namespace cohort::cluster
