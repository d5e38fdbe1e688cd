#include "cohort/engine/host_staging.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/base/version.h"
#include "cohort/engine/task_start.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/launch/process/process.h"
#include "cohort/launch/remote/remote_shell.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;
using nlohmann::ordered_json;

constexpr const char* kStagedSources = ".cache/cohort/sources";
constexpr std::size_t kMostSaid = 1 << 20;
constexpr std::chrono::seconds kHostTime{30};
constexpr std::size_t kMostAtOnce = 64;

fs::path staged_sources(const Environment& environment) {
  const auto home = environment.find_value("HOME");
  if (!home || home->empty()) throw InvalidInput("HOME is not set: there is no place for sources");
  return fs::path(*home) / kStagedSources;
}

// A file for a program's standard input.
UniqueFd file_with(std::string_view text) {
  UniqueFd file(::memfd_create("cohort-input", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw SystemError("cannot make a file in memory", errno);
  return file;
}

// Until the other end is closed; nothing when that takes too long.
std::optional<std::string> read_all(int fd, Deadline deadline) {
  std::string said;
  char buffer[4096];
  while (true) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, deadline.poll_timeout_ms());
    if (ready == 0 && deadline.expired()) return std::nullopt;
    if (ready <= 0) continue;
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) return said;
    if (count > 0 && said.size() < kMostSaid) said.append(buffer, static_cast<size_t>(count));
  }
}

// One host, as the launcher reaches it. Confined to one thread.
class StagedHost {
 public:
  StagedHost(std::string name, const launch::RemoteShell& shell, const Environment& environment)
      : name_(std::move(name)), shell_(shell), environment_(environment) {}

  // What is missing there, "HOST: what" each.
  std::vector<std::string> prepare(const AttemptRequest& request, const fs::path& archive) {
    try {
      const std::string text = to_json(request);
      ordered_json answer = ask(text);
      if (answer.value("cohort", "") != kVersion)
        return named({fmt::format(
            "its Cohort is of version {}, this one is {} (install the same version on every host)",
            answer.value("cohort", "unknown"), kVersion)});
      if (!answer.at("source").get<bool>()) {
        put(archive, request.source.filename().string());
        answer = ask(text);
      }
      return named(answer.at("missing").get<std::vector<std::string>>());
    } catch (const Error& error) {
      return named({error.message()});
    } catch (const nlohmann::json::exception&) {
      return named({"its answer is not understood (install the same version of Cohort there)"});
    }
  }

 private:
  bool is_here() const { return launch::is_this_machine(name_); }

  std::vector<std::string> named(const std::vector<std::string>& missing) const {
    std::vector<std::string> lines;
    for (const auto& what : missing) lines.push_back(fmt::format("{}: {}", name_, what));
    return lines;
  }

  ordered_json ask(const std::string& request) const {
    const std::string said = is_here()
                                 ? answer_check(request, environment_)
                                 : run({"--check"}, file_with(request), Deadline::after(kHostTime));
    for (const std::string& line : split(said, '\n'))  // a remote shell may greet first
      if (line.starts_with('{')) return ordered_json::parse(line);
    return ordered_json::parse("");
  }

  void put(const fs::path& archive, const std::string& id) const {
    if (is_here()) return stage_here(archive, id, environment_);
    UniqueFd file(::open(archive.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw SystemError(fmt::format("cannot read '{}'", archive.string()), errno);
    run({"--stage", id}, std::move(file), Deadline::never());
  }

  // Runs `cohort exec-task WORDS` there; returns what it said. Throws PeerError when it failed, or
  // took too long.
  std::string run(const std::vector<std::string>& words, UniqueFd input, Deadline deadline) const {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
    const UniqueFd output(ends[0]);
    UniqueFd writing(ends[1]);
    std::vector<std::string> command = shell_.words;
    command.insert(command.end(), {name_, shell_.cohort, "exec-task"});
    command.insert(command.end(), words.begin(), words.end());
    const auto path = environment_.find_value("PATH").value_or("/usr/bin:/bin");
    const pid_t pid = launch::spawn({.program = launch::find_program(command.front(), path),
                                     .command = command,
                                     .environment = environment_,
                                     .output = writing.get(),
                                     .input = input.get()});
    writing.reset();
    const auto said = read_all(output.get(), deadline);
    if (!said) launch::kill_group(pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!said) throw PeerError(fmt::format("it gave no answer within {} s", kHostTime.count()));
    if (status == 0) return *said;
    throw PeerError(launch::remote_failure(
        shell_, name_, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), *said));
  }

  std::string name_;
  const launch::RemoteShell& shell_;
  const Environment& environment_;
};

// Of all hosts, "HOST: what" each; where the source was missing it has been put.
std::vector<std::string> missing_on_hosts(const AttemptRequest& request,
                                          const launch::JobOptions& asked) {
  const auto shell = launch::parse_remote_shell(asked.remote.shell, asked.remote.cohort);
  const Environment environment = Environment::of_this_process();
  const AttemptRequest there = as_on_hosts(request);
  const fs::path archive = request.source.string() + ".tar.gz";
  std::vector<std::vector<std::string>> missing(asked.hosts.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(asked.hosts.size(), kMostAtOnce); ++i)
    threads.emplace_back([&] {
      for (std::size_t host; (host = next++) < asked.hosts.size();)
        missing[host] =
            StagedHost(asked.hosts[host].name, shell, environment).prepare(there, archive);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> all;
  for (const auto& lines : missing) all.insert(all.end(), lines.begin(), lines.end());
  return all;
}

}  // namespace

bool runs_elsewhere(const launch::JobOptions& asked) {
  return !asked.hosts.empty() || (asked.elastic && !asked.elastic->discovery_script.empty());
}

AttemptRequest as_on_hosts(AttemptRequest request) {
  if (!request.source.empty())
    request.source = fs::path("~") / kStagedSources / request.source.filename();
  return request;
}

void stage_on_hosts(const AttemptRequest& request, const launch::JobOptions& asked) {
  if (asked.hosts.empty()) {
    if (!request.source.empty())
      throw InvalidInput(
          "a host discovery script and source_dir exclude each other: hosts that "
          "come later would not have the source",
          {.advice = "Name the hosts, or a program that lies on all of them."});
    return;
  }
  const auto missing = missing_on_hosts(request, asked);
  if (!missing.empty())
    throw InvalidInput(fmt::format("the job cannot start: {}", join(missing, "; ")),
                       {.advice = "Put it in place on these hosts, and submit the job again."});
  log::info("program and data are in place on {} hosts", asked.hosts.size());
}

std::vector<std::string> missing_for_hosts(const launch::JobOptions& asked) {
  if (asked.hosts.empty())
    return {
        "no hosts are named (start the service with --hosts node1:4,node2:4 or --hostfile FILE, "
        "or give hosts in the job)"};
  AttemptRequest request;
  request.job.program = {"/bin/sh"};
  return missing_on_hosts(request, asked);
}

std::string answer_check(std::string_view text, const Environment& environment) {
  const AttemptRequest request = attempt_from_json(text, {});
  const bool has_source = request.source.empty() ||
                          fs::is_directory(staged_sources(environment) / request.source.filename());
  return ordered_json{{"cohort", kVersion},
                      {"source", has_source},
                      {"missing", missing_here(request, environment, Looked::at_all)}}
      .dump();
}

void stage_here(const fs::path& archive, const std::string& id, const Environment& environment) {
  const fs::path sources = staged_sources(environment);
  make_own_folder(sources);
  jobspec::unpack_source(archive, id, sources);
}

}  // namespace cohort::engine
