#include "cohort/service/page/page_port.h"

#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr std::size_t kMostPortFile = 16;
constexpr std::uint64_t kMostPort = 65535;

std::filesystem::path port_file(const RunFolders& folders) { return folders.root / "page-port"; }

}  // namespace

std::optional<int> last_page_port(const RunFolders& folders) {
  if (std::error_code code; !std::filesystem::exists(port_file(folders), code)) return std::nullopt;
  try {
    const auto port = parse_unsigned(trim(read_own_file(port_file(folders), kMostPortFile)));
    if (port && *port > 0 && *port <= kMostPort) return static_cast<int>(*port);
  } catch (const Error& error) {
    log::warning("the page gets another port: {}", error.what());
  }
  return std::nullopt;
}

void keep_page_port(const RunFolders& folders, int port) {
  write_file_atomically(port_file(folders), std::to_string(port) + "\n", 0600);
}

}  // namespace cohort::service
