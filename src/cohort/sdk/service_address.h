#pragma once

#include <filesystem>
#include <optional>
#include <string>

// Where the service is, and how a client gets to it. Functions without state, for any thread.
namespace cohort::sdk {

// The folder of this user's own service: COHORT_HOME, else XDG_STATE_HOME/cohort, else
// ~/.local/state/cohort. Throws InvalidInput when none of the variables is set.
std::filesystem::path default_root();

// A service that can be asked. A value.
struct ServiceAddress {
  std::string socket;  // path of its Unix socket; "": TCP
  std::string host;
  int port = 0;
  bool tls = false;
  std::string token;    // "": none; over TCP a service wants one
  std::string ca_file;  // whom TLS trusts; "": the system's authorities
  bool is_own = false;  // this user's own, which find_or_start_service() starts again

  std::string to_string() const;  // "unix:/run/x.sock", "https://host:8443"
};

// "unix:PATH", "https://HOST:PORT", or "http://HOST:PORT" (loopback only). Throws InvalidInput that
// names `what` (an option, a variable).
ServiceAddress parse_service_address(const std::string& text, const std::string& what);

// The service that COHORT_SERVICE names (with the token of COHORT_TOKEN, or of the file
// COHORT_TOKEN_FILE, and the authorities of COHORT_CA_FILE); else this user's own, if it runs:
// ROOT/service.json says where. Nothing when there is none. Throws InvalidInput for a variable, a
// record or a root folder that cannot be trusted (base/files/owned_files.h).
std::optional<ServiceAddress> find_service();

// The same; where none runs, starts this user's own (`PROGRAM serve --on-demand`, detached, its
// output in ROOT/service.log), says so on standard error, and waits until it answers, 10 s at most.
// `program`: the path of `cohort`; "": the one that COHORT_PROGRAM names, that lies beside this
// program, or that PATH finds. Throws InvalidInput, or Error with the last lines of service.log.
ServiceAddress find_or_start_service(const std::filesystem::path& program = {});

}  // namespace cohort::sdk
