#include "cohort/engine/hosts_engine.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::engine {
namespace {

bool names_hosts(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("--hosts") || word.starts_with("--hostfile") ||
           word.starts_with("--host-discovery-script");
  });
}

}  // namespace

HostsEngine::HostsEngine(std::vector<std::string> host_words, std::filesystem::path cohort)
    : LocalEngine(std::move(cohort)), host_words_(std::move(host_words)) {}

void HostsEngine::check(const jobspec::ResolvedJob& job) const {
  if (!names_hosts(job.run_words) && !names_hosts(host_words_))
    throw InvalidInput("engine \"hosts\" needs hosts, and the job names none",
                       {.advice = "Give hosts = \"node1:4,node2:4\" or hostfile = FILE."});
}

void HostsEngine::submit(const AttemptRequest& request) {
  if (names_hosts(request.job.run_words)) return LocalEngine::submit(request);
  AttemptRequest placed = request;
  placed.job.run_words.insert(placed.job.run_words.begin(), host_words_.begin(), host_words_.end());
  LocalEngine::submit(placed);
}

}  // namespace cohort::engine
