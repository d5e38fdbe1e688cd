#include "cohort/transport/host.h"

#include <unistd.h>

#include <array>

#include "cohort/base/files/files.h"
#include "cohort/base/text.h"

namespace cohort::transport {

namespace {

std::string link_target(const char* path) {
  std::array<char, 256> target;
  const ssize_t length = ::readlink(path, target.data(), target.size());
  return length < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

}  // namespace

std::string host_identity() {
  std::string identity(trim(read_file("/proc/sys/kernel/random/boot_id")));
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/mnt"})
    identity.append(1, ' ').append(link_target(space));
  return identity;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace cohort::transport
