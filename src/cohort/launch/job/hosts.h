#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::launch {

// A machine that takes part, and how many workers it takes (nothing: as many as asked for).
struct Host {
  std::string name;
  std::optional<int> slots;

  bool operator==(const Host&) const = default;
};

// "node1" or "node1:4". Throws InvalidInput, also for user@host and for what no host is called: a
// name goes on a remote shell's command line.
Host parse_host(std::string_view text);

// Calls `take` for each line of `text` without its comment ('#') unless nothing is left. What it
// refuses is told with the number of the line: InvalidInput "SOURCE line 3: ...".
void for_each_host_line(std::string_view text, const std::string& source,
                        const std::function<void(std::string_view line)>& take);

// One host a line: "node1", "node1 slots=4" or "node1:4"; '#' starts a comment. Throws InvalidInput
// that names the file and the line.
std::vector<Host> read_hostfile(const std::filesystem::path& path);

// True for localhost, loopback addresses, this machine's name and the addresses of its interfaces.
bool is_this_machine(std::string_view host);

// Throws InvalidInput when the slots do not suffice for `workers`.
void require_slots(const std::vector<Host>& hosts, int workers);

// The address of this machine on the way to `host`: what that one can connect to. Throws
// InvalidInput when there is no way, or the name is not known.
std::string address_towards(const std::string& host);

// Throws InvalidInput when the loopback interface is down (a new network namespace): tasks on this
// machine could not reach each other.
void require_loopback();

}  // namespace cohort::launch
