#include "cohort/base/process/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

namespace {

// What pids of this process's kernel and namespace have in common.
std::string pid_space() {
  std::array<char, 64> target{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", target.data(), target.size());
  return fmt::format(
      "{} {}", trim(read_file("/proc/sys/kernel/random/boot_id")),
      std::string_view(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))));
}

struct Stat {
  char state = 0;  // 'Z': ended, but its parent has not asked yet
  std::uint64_t start_time = 0;
};

Stat stat_of(pid_t pid) {
  const UniqueFd fd(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = fd ? ::read(fd.get(), text.data(), text.size() - 1) : 0;
  if (length <= 0) return {};
  // The name, field 2, may hold spaces and brackets: count from its last bracket on.
  std::string_view rest(text.data(), static_cast<std::size_t>(length));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return {};
  const char state = rest[name_end + 2];
  rest.remove_prefix(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return {};
    rest.remove_prefix(space + 1);
  }
  return {state, std::strtoull(rest.data(), nullptr, 10)};
}

}  // namespace

std::uint64_t process_start_time(pid_t pid) { return stat_of(pid).start_time; }

std::string process_identity(pid_t pid) {
  return fmt::format("{} {} {}", pid_space(), pid, process_start_time(pid));
}

bool process_ended(const std::string& identity) {
  const auto words = split(identity, ' ');
  if (words.size() != 4) return true;
  if (words[0] + " " + words[1] != pid_space()) return false;
  const auto pid = parse_unsigned(words[2]);
  const auto start = parse_unsigned(words[3]);
  if (!pid || !start || *start == 0) return true;
  const Stat stat = stat_of(static_cast<pid_t>(*pid));
  return stat.start_time != *start || stat.state == 'Z' || stat.state == 'X';
}

}  // namespace cohort
