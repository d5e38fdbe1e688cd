#include "cohort/sdk/service_address.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/net/http_client.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"

namespace cohort::sdk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRecordBytes = 64 * 1024;
constexpr std::chrono::seconds kAnswerSoon{5};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// "HOST:PORT" or "[::1]:PORT".
void parse_host_and_port(std::string_view text, ServiceAddress& address, const std::string& what,
                         const std::string& whole) {
  while (text.ends_with('/')) text.remove_suffix(1);
  const std::size_t colon = text.rfind(':');
  const auto port = colon == text.npos ? std::nullopt : parse_unsigned(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0)
    throw InvalidInput(fmt::format("{} '{}' names no host and port from 1 to 65535", what, whole),
                       {.advice = "As in: https://trainer.example.org:8443"});
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  address.host = host;
  address.port = static_cast<int>(*port);
}

std::string token_of_environment() {
  if (auto token = variable("COHORT_TOKEN"); !token.empty()) return token;
  const std::string path = variable("COHORT_TOKEN_FILE");
  if (path.empty()) return {};
  return std::string(trim(read_own_file(path, kMostRecordBytes)));
}

// False where no process answers: a service that was killed leaves record and socket, and while it
// is being taken down even a socket that can be connected to.
bool is_answering(const std::string& socket) {
  try {
    HttpClient({.server = Endpoint::unix_path(socket)})
        .call({.target = "/v1/service"}, Deadline::after(kAnswerSoon));
  } catch (const PeerError&) {
    return false;
  } catch (const TimeoutError&) {  // busy
  }
  return true;
}

// What ROOT/service.json says of a service that runs; nothing when it is not there, or the process
// that wrote it has ended.
std::optional<ServiceAddress> own_service(const fs::path& root) {
  std::error_code ignored;
  if (!fs::exists(root, ignored)) return std::nullopt;
  require_own_folder(root);
  const fs::path path = root / "service.json";
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_own_file(path, kMostRecordBytes), nullptr,
                                          /*allow_exceptions=*/false);
  try {
    const auto pid = json.at("pid").get<pid_t>();
    const auto start_time = json.at("start_time").get<std::uint64_t>();
    if (start_time == 0 || process_start_time(pid) != start_time) return std::nullopt;
    ServiceAddress address{.socket = json.at("socket").get<std::string>(), .is_own = true};
    if (!is_answering(address.socket)) return std::nullopt;
    return address;
  } catch (const nlohmann::json::exception&) {
    throw InvalidInput(fmt::format("'{}' is not the record of a service", path.string()),
                       {.advice = "Remove it; the next `cohort submit` starts the service anew."});
  }
}

}  // namespace

fs::path default_root() {
  if (auto home = variable("COHORT_HOME"); !home.empty()) return fs::absolute(home);
  if (auto state = variable("XDG_STATE_HOME"); !state.empty()) return fs::path(state) / "cohort";
  if (auto home = variable("HOME"); !home.empty()) return fs::path(home) / ".local/state/cohort";
  throw InvalidInput("neither COHORT_HOME, XDG_STATE_HOME nor HOME is set",
                     {.advice = "Set COHORT_HOME to the folder in which jobs are to be kept."});
}

std::string ServiceAddress::to_string() const {
  if (!socket.empty()) return "unix:" + socket;
  const bool brackets = host.find(':') != host.npos;
  return fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", brackets ? "[" : "", host,
                     brackets ? "]" : "", port);
}

ServiceAddress parse_service_address(const std::string& text, const std::string& what) {
  constexpr std::string_view kUnix = "unix:", kHttps = "https://", kHttp = "http://";
  ServiceAddress address;
  if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
    address.socket = text.substr(kUnix.size());
  } else if (text.starts_with(kHttps)) {
    address.tls = true;
    parse_host_and_port(std::string_view(text).substr(kHttps.size()), address, what, text);
  } else if (text.starts_with(kHttp)) {
    parse_host_and_port(std::string_view(text).substr(kHttp.size()), address, what, text);
    if (!is_loopback_name(address.host))
      throw InvalidInput(
          fmt::format("{} '{}' would send the token unencrypted", what, text),
          {.advice = fmt::format("Write https://{}:{}.", address.host, address.port)});
  } else {
    throw InvalidInput(fmt::format("{} '{}' is not an address of a service", what, text),
                       {.advice = "Write unix:PATH or https://HOST:PORT."});
  }
  return address;
}

std::optional<ServiceAddress> find_service() {
  const std::string named = variable("COHORT_SERVICE");
  if (named.empty()) return own_service(default_root());
  ServiceAddress address = parse_service_address(named, "COHORT_SERVICE");
  if (address.socket.empty()) address.token = token_of_environment();
  address.ca_file = variable("COHORT_CA_FILE");
  return address;
}

}  // namespace cohort::sdk
