#include "cohort/transport/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort::transport {

std::uint64_t process_start_time(pid_t pid) {
  const UniqueFd fd(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = fd ? ::read(fd.get(), text.data(), text.size() - 1) : 0;
  if (length <= 0) return 0;
  // The name, field 2, may hold spaces and brackets: count from its last bracket on.
  std::string_view rest(text.data(), static_cast<std::size_t>(length));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  rest.remove_prefix(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    rest.remove_prefix(space + 1);
  }
  return std::strtoull(rest.data(), nullptr, 10);
}

}  // namespace cohort::transport
