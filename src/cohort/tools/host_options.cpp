#include "cohort/tools/host_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/text.h"
#include "cohort/launch/job/slurm_allocation.h"
#include "cohort/launch/remote/remote_shell.h"

namespace cohort::tools {

void declare_host_options(CLI::App& app, launch::JobOptions& job) {
  app.add_option_function<std::vector<std::string>>(
         "--hosts",
         [&job](const std::vector<std::string>& names) {
           for (const auto& name : names) job.hosts.push_back(launch::parse_host(name));
         },
         "Machines that run workers, as in node1:4,node2:4")
      ->delimiter(',')
      ->take_all()
      ->type_name("HOST[:SLOTS]")
      ->group("Hosts");
  app.add_option_function<std::string>(
         "--hostfile",
         [&job](const std::string& path) {
           auto hosts = launch::read_hostfile(path);
           job.hosts.insert(job.hosts.end(), hosts.begin(), hosts.end());
         },
         "A file with one host a line")
      ->type_name("FILE")
      ->group("Hosts");
  app.add_flag_callback(
         "--slurm",
         [&job] { launch::take_slurm_allocation(job, cluster::Environment::of_this_process()); },
         "In a Slurm job: its nodes are the hosts, and srun starts the tasks")
      ->group("Hosts");
  app.add_option("--slots-per-host", job.slots_per_host,
                 "Workers on a host that names no slots [as many as needed; 1 with --elastic]")
      ->type_name("N")
      ->group("Hosts");
  app.add_option("--remote-shell", job.remote.shell,
                 "Command that runs another one on a host, whose name is appended [ssh, without "
                 "passwords]")
      ->type_name("COMMAND")
      ->group("Hosts");
  app.add_option("--remote-cohort", job.remote.cohort,
                 "Where cohort lies on the other hosts [where it lies here]")
      ->type_name("PATH")
      ->group("Hosts");
  app.add_option("--address", job.remote.address,
                 "This machine as the other hosts see it [as it reaches the first of them]")
      ->type_name("HOST")
      ->group("Hosts");
}

std::vector<std::string> host_words(const launch::JobOptions& job) {
  std::vector<std::string> words, hosts;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  for (const launch::Host& host : job.hosts)
    hosts.push_back(host.slots ? fmt::format("{}:{}", host.name, *host.slots) : host.name);
  add("--hosts", join(hosts, ","));
  if (job.slots_per_host) add("--slots-per-host", std::to_string(*job.slots_per_host));
  add("--remote-shell", job.remote.shell == launch::kDefaultRemoteShell ? "" : job.remote.shell);
  add("--remote-cohort", job.remote.cohort);
  add("--address", job.remote.address);
  return words;
}

}  // namespace cohort::tools
