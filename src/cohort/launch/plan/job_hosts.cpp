#include "cohort/launch/plan/job_hosts.h"

#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/cluster/address.h"
#include "cohort/launch/process/leftovers.h"

namespace cohort::launch {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kFarAway = "192.0.2.1";  // of documentation (RFC 5737): the default route

HostDiscoveryOptions discovery_options(const JobOptions& options, const std::string& job,
                                       cluster::Environment environment) {
  environment[kJobVariable] = job;
  return {.script = options.elastic->discovery_script,
          .hosts = options.hosts,
          .slots_per_host = options.slots_per_host.value_or(1),
          .environment = std::move(environment)};
}

}  // namespace

JobHosts::JobHosts(const JobOptions& options, const std::string& job,
                   cluster::Environment environment, EventLoop& loop, Changed changed)
    : address_(options.remote.address),
      changed_(std::move(changed)),
      discovery_(discovery_options(options, job, std::move(environment)), loop,
                 [this](const std::vector<Host>& hosts) { on_list(hosts); }) {}

void JobHosts::on_list(const std::vector<Host>& hosts) {
  known_ = true;
  hosts_ = hosts;
  auto without_slot = placement_.set_hosts(within_reach(hosts));
  changed_(placement_.slots(), without_slot);
}

std::vector<Host> JobHosts::within_reach(const std::vector<Host>& hosts) {
  if (address_.empty() || !cluster::is_loopback(address_)) return hosts;
  std::vector<Host> result;
  for (const Host& host : hosts) {
    if (is_this_machine(host.name)) {
      result.push_back(host);
    } else if (left_out_.insert(host.name).second) {
      log::warning(
          "host '{}' is left out: this job listens on {}, where no other host reaches it; give "
          "--address",
          host.name, address_);
    }
  }
  return result;
}

std::string JobHosts::settle_address() {
  if (!address_.empty()) return address_;
  std::string other = kFarAway;
  for (const Host& host : hosts_) {
    if (other == kFarAway && !is_this_machine(host.name)) other = host.name;
    if (is_this_machine(host.name) && !cluster::is_loopback(host.name)) address_ = host.name;
  }
  if (!address_.empty() && other == kFarAway) return address_;
  try {
    address_ = address_towards(other);
  } catch (const InvalidInput&) {
    if (other != kFarAway) throw;
    address_ = kLoopback;
  }
  return address_;
}

}  // namespace cohort::launch
