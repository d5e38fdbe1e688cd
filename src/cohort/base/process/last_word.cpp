#include "cohort/base/process/last_word.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

// Fields in lines, the message last: it may have lines of its own. A NUL ends it.
constexpr std::string_view kHeading = "cohort last word 1";
constexpr std::size_t kMostFieldBytes = 512;

constexpr std::pair<LastWord::Kind, std::string_view> kKinds[] = {
    {LastWord::Kind::none, ""},
    {LastWord::Kind::error, "error"},
    {LastWord::Kind::lost_peer, "lost_peer"},
    {LastWord::Kind::done, "done"}};

std::string one_line(std::string_view text) {
  std::string line(text.substr(0, kMostFieldBytes));
  for (char& byte : line)
    if (byte == '\n' || byte == '\0') byte = ' ';
  return line;
}

// -1 where this process has none, or something else has taken its number.
int file_of_this_process() {
  const char* value = std::getenv(kLastWordVariable);
  const auto number = value ? parse_unsigned(value) : std::nullopt;
  if (!number || *number > INT_MAX) return -1;
  const int fd = static_cast<int>(*number);
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(fd, F_GET_SEALS);  // -1: no memory file
  return seals >= 0 && (seals & kSeals) == kSeals ? fd : -1;
}

std::string read_word_file(int fd) {
  std::string bytes(kLastWordBytes, '\0');
  ssize_t count;
  do {
    count = ::pread(fd, bytes.data(), bytes.size(), 0);
  } while (count < 0 && errno == EINTR);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return bytes;
}

}  // namespace

std::string_view to_string(LastWord::Kind kind) {
  for (const auto& [value, name] : kKinds)
    if (value == kind) return name;
  return "";
}

std::string encode_last_word(const LastWord& word) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", kHeading, to_string(word.kind), word.pid,
                  word.exit_code ? std::to_string(*word.exit_code) : "", one_line(word.peer),
                  static_cast<int>(word.loss), one_line(word.during));
  text += std::string_view(word.message).substr(0, word.message.find('\0'));
  if (text.size() > kLastWordBytes) text.resize(kLastWordBytes);
  return text;
}

LastWord decode_last_word(std::string_view bytes) {
  bytes = bytes.substr(0, std::min(bytes.find('\0'), kLastWordBytes));
  std::vector<std::string_view> fields;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return {};
    fields.push_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  LastWord word;
  for (const auto& [kind, name] : kKinds)
    if (name == fields[1]) word.kind = kind;
  const auto pid = parse_unsigned(fields[2]);
  const auto exit_code = parse_unsigned(fields[3]);
  const auto loss = parse_unsigned(fields[5]);
  if (fields[0] != kHeading || word.kind == LastWord::Kind::none || !pid || *pid > INT_MAX ||
      (exit_code && *exit_code > 255) || !loss || *loss > static_cast<int>(LastWord::Loss::late))
    return {};
  word.pid = static_cast<pid_t>(*pid);
  if (exit_code) word.exit_code = static_cast<int>(*exit_code);
  word.peer = fields[4];
  word.loss = static_cast<LastWord::Loss>(*loss);
  word.during = fields[6];
  word.message = bytes;
  return word;
}

// A word that cannot be written is missed in a report; the program's own end goes before it.
void say_last_word(LastWord word) noexcept try {
  const int fd = file_of_this_process();
  if (fd < 0) return;
  word.pid = ::getpid();
  std::string bytes = word.kind == LastWord::Kind::none ? "" : encode_last_word(word);
  bytes.resize(kLastWordBytes, '\0');  // in one write, so that a kill leaves the old or the new
  while (::pwrite(fd, bytes.data(), bytes.size(), 0) < 0 && errno == EINTR) {
  }
} catch (const std::exception&) {
}

LastWord last_word_so_far() noexcept try {
  const int fd = file_of_this_process();
  return fd < 0 ? LastWord{} : decode_last_word(read_word_file(fd));
} catch (const std::exception&) {
  return {};
}

void note_lost_peer(const std::string& peer, LastWord::Loss loss, const std::string& during,
                    const std::string& message) noexcept try {
  if (file_of_this_process() < 0 || last_word_so_far().kind == LastWord::Kind::lost_peer) return;
  say_last_word({.kind = LastWord::Kind::lost_peer,
                 .peer = peer,
                 .loss = loss,
                 .during = during,
                 .message = message});
} catch (const std::exception&) {
}

void forget_lost_peer() noexcept {
  if (last_word_so_far().kind == LastWord::Kind::lost_peer) say_last_word({});
}

LastWordOwner::LastWordOwner()
    : file_(::memfd_create("cohort-last-word", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  // A task can make it neither larger, at the cost of the launcher's memory, nor smaller.
  if (!file_ || ::ftruncate(file_.get(), kLastWordBytes) != 0 ||
      ::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    throw SystemError("cannot create a memory file for a task's last word", errno,
                      {.advice = "Raise the limit on open files: ulimit -n"});
}

LastWord LastWordOwner::read(pid_t task, std::optional<int> exit_code) const {
  LastWord word = decode_last_word(read_word_file(file_.get()));
  const bool of_another_end =
      word.exit_code && word.pid != task && (!exit_code || *exit_code != *word.exit_code);
  return of_another_end ? LastWord{} : word;
}

}  // namespace cohort
