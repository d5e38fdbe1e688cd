#include "cohort/launch/plan/host_discovery.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/launch/job/job.h"

namespace cohort::launch {
namespace {

std::vector<Host> sorted(std::vector<Host> hosts) {
  std::sort(hosts.begin(), hosts.end(),
            [](const Host& a, const Host& b) { return a.name < b.name; });
  return hosts;
}

void add_host(const Host& host, std::vector<Host>& hosts) {
  auto same = std::find_if(hosts.begin(), hosts.end(),
                           [&](const Host& other) { return other.name == host.name; });
  if (same == hosts.end()) {
    hosts.push_back(host);
  } else if (*same != host) {
    throw InvalidInput(fmt::format("host '{}' is named again with {} slots instead of {}",
                                   host.name, *host.slots, *same->slots),
                       {.advice = "Print each host once."});
  }
}

}  // namespace

std::vector<Host> with_slots(std::vector<Host> hosts, int slots_per_host) {
  for (Host& host : hosts) host.slots = host.slots.value_or(slots_per_host);
  return hosts;
}

std::vector<Host> parse_discovered_hosts(std::string_view text, int slots_per_host) {
  std::vector<Host> hosts;
  for_each_host_line(text, "", [&](std::string_view line) {
    Host host = parse_host(line);
    host.slots = host.slots.value_or(slots_per_host);
    add_host(host, hosts);
  });
  return hosts;
}

HostDiscovery::HostDiscovery(HostDiscoveryOptions options, EventLoop& loop, Callback changed)
    : options_(std::move(options)), loop_(loop), changed_(std::move(changed)) {
  if (options_.script.empty()) {
    timer_ =
        loop_.call_after({}, [this] { tell(with_slots(options_.hosts, options_.slots_per_host)); });
    return;
  }
  options_.script = find_program(options_.script.string(),
                                 options_.environment.find_value("PATH").value_or("/usr/bin:/bin"));
  timer_ = loop_.call_after({}, [this] { run_script(); });
}

HostDiscovery::~HostDiscovery() { loop_.cancel(timer_); }

void HostDiscovery::run_script() {
  next_run_ = EventLoop::Clock::now() + options_.period;
  try {
    run_ = std::make_unique<ProgramRun>(ProgramRun::Options{.program = options_.script,
                                                            .environment = options_.environment,
                                                            .limit = options_.limit},
                                        loop_, [this](ProgramRun::Result result) {
                                          run_.reset();
                                          on_result(result);
                                        });
  } catch (const Error& error) {  // no more processes, the script is gone: it may come back
    on_result({.failure = error.what()});
  }
}

void HostDiscovery::on_result(const ProgramRun::Result& result) {
  timer_ = loop_.call_at(next_run_, [this] { run_script(); });
  if (!result.failure.empty()) return on_failure(result.failure);
  std::vector<Host> hosts;
  try {
    hosts = parse_discovered_hosts(result.output, options_.slots_per_host);
  } catch (const InvalidInput& error) {
    return on_failure(error.what());
  }
  if (std::exchange(failing_, false))
    log::info("the host discovery script '{}' answers again", options_.script.string());
  tell(std::move(hosts));
}

void HostDiscovery::on_failure(const std::string& how) {
  if (std::exchange(failing_, true)) return;
  log::warning("the host discovery script '{}' failed: {}; {}", options_.script.string(), how,
               last_ ? "the hosts that it named last still count" : "no hosts are known yet");
}

void HostDiscovery::tell(std::vector<Host> hosts) {
  auto now = sorted(hosts);
  if (last_ == now) return;
  last_ = std::move(now);
  auto changed = changed_;  // which may destroy this object
  changed(hosts);
}

}  // namespace cohort::launch
