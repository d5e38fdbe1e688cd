#include "cohort/tools/doctor.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/plan/ports.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/host_options.h"

namespace cohort::tools {
namespace {

double gigabytes(double bytes) { return bytes / 1e9; }

std::filesystem::path torch_probe() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "cohort-torch-probe";
}

Finding check_system() {
  utsname name{};
  ::uname(&name);
  return {.subject = "system",
          .text = fmt::format("{} {} on {}", name.sysname, name.release, name.machine)};
}

Finding check_cores() {
  int cores = usable_cores();
  auto online = ::sysconf(_SC_NPROCESSORS_ONLN);
  Finding finding{.subject = "cores", .text = fmt::format("{} usable of {}", cores, online)};
  if (cores < online) {
    finding.level = Level::note;
    finding.fix =
        "A CPU limit or an affinity mask keeps the others away: see taskset -p $$ and the "
        "container's CPU limit.";
  }
  return finding;
}

Finding check_memory() {
  double total = static_cast<double>(usable_memory());
  Finding finding{.subject = "memory", .text = fmt::format("{:.1f} GB usable", gigabytes(total))};
  if (total < 2e9) {
    finding.level = Level::note;
    finding.fix = "Less than 2 GB is little for training; run fewer workers.";
  }
  return finding;
}

Finding check_limit(const char* subject, decltype(RLIMIT_NOFILE) resource, rlim_t enough,
                    const char* fix) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  auto show = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::string("unlimited") : std::to_string(value);
  };
  Finding finding{
      .subject = subject,
      .text = fmt::format("{} (at most {})", show(limit.rlim_cur), show(limit.rlim_max))};
  if (limit.rlim_max < enough) {
    finding.level = Level::note;
    finding.fix = fix;
  }
  return finding;
}

Finding check_ports() {
  auto ephemeral = launch::ephemeral_ports();
  auto range = launch::ports_outside(ephemeral);
  Finding finding{.subject = "ports"};
  try {
    launch::PortReservation ports;
    ports.reserve();
    finding.text = fmt::format("tasks get ports from {} to {}", range.first, range.last);
    if (range.first <= ephemeral.last && ephemeral.first <= range.last) {
      finding.level = Level::note;
      finding.fix =
          "The kernel hands out the same ports to outgoing connections; leave room with: "
          "sysctl -w net.ipv4.ip_local_port_range='32768 60999'";
    }
  } catch (const Error& error) {
    finding.level = Level::wrong;
    finding.text = error.message();
    finding.fix = error.context().advice;
  }
  return finding;
}

Finding check_disk() {
  struct statvfs disk {};
  if (::statvfs(".", &disk) != 0)
    return {"disk", Level::wrong, "the current folder cannot be read", "Change to another folder."};
  double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  Finding finding{.subject = "disk", .text = fmt::format("{:.1f} GB free here", gigabytes(free))};
  if (free < 1e9) {
    finding.level = Level::note;
    finding.fix = "Logs and checkpoints need room: use --output on another disk.";
  } else if (::access(".", W_OK) != 0) {
    finding.level = Level::note;
    finding.fix = "This folder cannot be written: use --output DIR.";
  }
  return finding;
}

// What cohort-torch-probe says; null: it is not there, or does not run.
nlohmann::json ask_torch_probe() {
  const auto probe = torch_probe();
  if (!std::filesystem::exists(probe)) return {};
  const auto text = output_of(shell_quote(probe.string()));
  auto json = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json();
}

Finding check_torch(const nlohmann::json& torch) {
  constexpr const char* kFix =
      "Run scripts/setup and make build; or: pip install torch==2.13.0 (training needs it, the "
      "launcher does not).";
  if (!std::filesystem::exists(torch_probe()))
    return {"LibTorch", Level::note, "not built in", kFix};
  if (torch.is_null())
    return {"LibTorch", Level::wrong, fmt::format("{} does not run", torch_probe().string()), kFix};
  if (!torch.value("works", false))
    return {"LibTorch", Level::note, torch.value("error", "it does not work"), kFix};
  return {
      .subject = "LibTorch",
      .text = fmt::format("{}, {} threads, CUDA {}", torch.value("version", "?"),
                          torch.value("threads", 0), torch.value("cuda", false) ? "yes" : "no")};
}

Finding check_mpi() {
  auto text = output_of("mpirun --version");
  if (!text)
    return {"MPI", Level::note, "no mpirun",
            "Only for jobs under MPI: apt-get install openmpi-bin libopenmpi-dev"};
  return {.subject = "MPI", .text = text->substr(0, text->find('\n'))};
}

Finding check_proxy() {
  auto environment = cluster::Environment::of_this_process();
  for (const char* name : {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy"})
    if (auto value = environment.find_value(name); value && !value->empty())
      return {.subject = "proxy",
              .text = fmt::format("{} is set; cohort run keeps the job's own connections past it",
                                  name)};
  return {.subject = "proxy", .text = "none"};
}

std::vector<Finding> examine() {
  const nlohmann::json torch = ask_torch_probe();
  return {check_system(),
          check_cores(),
          check_memory(),
          check_limit("open files", RLIMIT_NOFILE, 4096,
                      "Large jobs need more: ulimit -Hn 65536 as root, or nofile in "
                      "/etc/security/limits.conf."),
          check_limit("processes", RLIMIT_NPROC, 1024,
                      "Large jobs need more: nproc in /etc/security/limits.conf."),
          check_ports(),
          check_disk(),
          check_torch(torch),
          check_mpi(),
          check_gpus(),
          check_device_transport(torch.is_object() ? torch.value("nccl", "") : ""),
          check_proxy()};
}

const char* mark(Level level) {
  return level == Level::ok ? "ok  " : level == Level::note ? "note" : "BAD ";
}

void print_table(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    std::cout << fmt::format("{}  {:<10}  {}\n", mark(finding.level), finding.subject,
                             finding.text);
    if (!finding.fix.empty()) std::cout << fmt::format("      {:<10}  -> {}\n", "", finding.fix);
  }
}

void print_json(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& finding : findings)
    list.push_back({{"subject", finding.subject},
                    {"level", std::string(trim(mark(finding.level)))},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  std::cout << list.dump(2) << "\n";
}

int examine_machine(bool json, const EngineQuestion& question) {
  const std::string& engine = question.engine;
  auto findings = engine.empty() ? examine() : examine_engine(question);
  json ? print_json(findings) : print_table(findings);
  bool wrong = false;
  for (const auto& finding : findings) wrong = wrong || finding.level == Level::wrong;
  if (!json)
    std::cout << (wrong ? "\nSomething must be mended before jobs run here.\n"
                  : engine.empty()
                      ? "\nThis machine is ready: try cohort run -n 2 -- ...\n"
                      : fmt::format("\nThe engine is ready: try cohort submit --engine {} -- ...\n",
                                    engine));
  return wrong ? 1 : 0;
}

constexpr const char* kDoctorExamples = R"(
Examples:
  cohort doctor
  cohort doctor --json
  cohort doctor --engine slurm
      what this machine lacks for jobs of that engine
  cohort doctor --engine hosts --hosts node1:4,node2:4
      whether those hosts can be reached, and have Cohort

The exit code is 1 when jobs cannot run here.
)";

}  // namespace

Command doctor_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto json = std::make_shared<bool>(false);
    auto question = std::make_shared<EngineQuestion>();
    app.description(
        "Checks cores, memory, limits, ports, disk, LibTorch, MPI, GPUs and proxies of this\n"
        "machine and says what is wrong and how to mend it.");
    app.footer(kDoctorExamples);
    app.add_flag("--json", *json, "As JSON");
    app.add_option("--engine", question->engine,
                   "What jobs of that engine need, in place of this machine")
        ->type_name(join(examined_engines(), "|"));
    declare_host_options(app, question->hosts);
    question->kubernetes.declare_access(app);
    return
        [json, question](const Words&, const Words&) { return examine_machine(*json, *question); };
  };
  return {"doctor", "check this machine and say what is wrong and how to mend it",
          "[--engine NAME] [--json]", declare};
}

}  // namespace cohort::tools
