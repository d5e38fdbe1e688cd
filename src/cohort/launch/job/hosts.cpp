#include "cohort/launch/job/hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/text.h"
#include "cohort/cluster/address.h"

namespace cohort::launch {
namespace {

std::vector<std::string> interface_addresses() {
  std::vector<std::string> result;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return result;
  for (ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET)
      ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text,
                  sizeof text);
    else if (entry->ifa_addr->sa_family == AF_INET6)
      ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr, text,
                  sizeof text);
    if (text[0]) result.emplace_back(text);
  }
  ::freeifaddrs(list);
  return result;
}

bool in_host_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-._:%", c) != nullptr;
}

int parse_slots(std::string_view text, std::string_view host) {
  auto slots = parse_unsigned(text);
  if (!slots || *slots < 1 || *slots > 1'000'000)
    throw InvalidInput(fmt::format("'{}' is not a number of slots for host '{}'", text, host),
                       {.advice = "Give a number from 1 on, as in node1:4."});
  return static_cast<int>(*slots);
}

}  // namespace

Host parse_host(std::string_view text) {
  if (size_t at = text.find('@'); at != std::string_view::npos)
    throw InvalidInput(fmt::format("host '{}' carries a user name", text),
                       {.advice = fmt::format("Write {} and set the user in your ssh "
                                              "configuration.",
                                              text.substr(at + 1))});
  // More than one colon: an IPv6 address, which takes no slots here.
  size_t colon = text.find(':');
  bool has_slots = colon != std::string_view::npos && text.rfind(':') == colon;
  Host host{.name = std::string(text.substr(0, has_slots ? colon : text.size()))};
  if (host.name.empty())
    throw InvalidInput(fmt::format("'{}' names no host", text),
                       {.advice = "Write node1 or node1:4."});
  if (host.name.front() == '-' || !std::all_of(host.name.begin(), host.name.end(), in_host_name))
    throw InvalidInput(fmt::format("'{}' is no name of a host", host.name),
                       {.advice = "Write a host name or an address, as in node1 or 10.0.0.7."});
  if (has_slots) host.slots = parse_slots(text.substr(colon + 1), host.name);
  return host;
}

void for_each_host_line(std::string_view text, const std::string& source,
                        const std::function<void(std::string_view line)>& take) {
  int number = 0;
  for (const auto& raw : split(text, '\n')) {
    ++number;
    std::string_view line = trim(std::string_view(raw).substr(0, raw.find('#')));
    if (line.empty()) continue;
    try {
      take(line);
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("{}{}line {}: {}", source, source.empty() ? "" : " ", number,
                                     error.message()),
                         error.context());
    }
  }
}

std::vector<Host> read_hostfile(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const SystemError& error) {
    throw InvalidInput(error.message(), {.advice = "Check the path given to --hostfile."});
  }
  std::vector<Host> hosts;
  for_each_host_line(text, path.string(), [&](std::string_view line) {
    size_t space = line.find_first_of(" \t");
    Host host = parse_host(line.substr(0, space));
    std::string_view rest =
        space == std::string_view::npos ? std::string_view{} : trim(line.substr(space));
    if (rest.starts_with("slots="))
      host.slots = parse_slots(rest.substr(6), host.name);
    else if (!rest.empty())
      throw InvalidInput(fmt::format("'{}' after host '{}' is not understood", rest, host.name),
                         {.advice = "Write: node1 slots=4"});
    hosts.push_back(host);
  });
  if (hosts.empty())
    throw InvalidInput(fmt::format("host file '{}' names no host", path.string()),
                       {.advice = "Write one host a line: node1 slots=4"});
  return hosts;
}

bool is_this_machine(std::string_view host) {
  if (cluster::is_loopback(host) || host == host_name()) return true;
  auto own = interface_addresses();
  return std::find(own.begin(), own.end(), host) != own.end();
}

void require_slots(const std::vector<Host>& hosts, int workers) {
  int slots = 0;
  bool limited = !hosts.empty();
  for (const auto& host : hosts) {
    limited = limited && host.slots.has_value();
    slots += host.slots.value_or(0);
  }
  if (limited && slots < workers)
    throw InvalidInput(
        fmt::format("the hosts have {} slots, but {} workers are asked for", slots, workers),
        {.advice = "Lower -n or raise the slots."});
}

std::string address_towards(const std::string& host) {
  constexpr int kAnyPort = 9;  // nothing is sent: the kernel chooses the way and is asked for it
  constexpr const char* kAdvice = "Name this machine as the other hosts see it, with --address.";
  try {
    for (const auto& target :
         resolve(Endpoint::tcp(host, kAnyPort), Deadline::after(std::chrono::seconds(10)))) {
      UniqueFd probe(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
      if (probe && ::connect(probe.get(), target.get(), target.size) == 0)
        return local_endpoint(probe.get()).host();
    }
  } catch (const Error& error) {
    throw InvalidInput(error.message(), {.advice = kAdvice});
  }
  throw InvalidInput(fmt::format("there is no way to host '{}' from here", host),
                     {.advice = kAdvice});
}

void require_loopback() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  bool down = false;
  for (ifaddrs* entry = list; entry; entry = entry->ifa_next)
    if ((entry->ifa_flags & IFF_LOOPBACK) && !(entry->ifa_flags & IFF_UP)) down = true;
  ::freeifaddrs(list);
  if (down)
    throw InvalidInput("the loopback interface is down, so tasks could not reach each other",
                       {.advice = "Bring it up with: ip link set lo up"});
}

}  // namespace cohort::launch
