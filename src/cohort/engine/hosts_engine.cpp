#include "cohort/engine/hosts_engine.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::engine {
namespace {

constexpr const char* kNamingOptions[] = {"--hosts", "--hostfile", "--host-discovery-script"};

bool has_option(const std::vector<std::string>& words, const std::string& option) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

bool names_hosts(const std::vector<std::string>& words) {
  return std::any_of(std::begin(kNamingOptions), std::end(kNamingOptions),
                     [&](const char* option) { return has_option(words, option); });
}

}  // namespace

HostsEngine::HostsEngine(std::vector<std::string> host_words, std::filesystem::path cohort)
    : LocalEngine(std::move(cohort)), host_words_(std::move(host_words)) {}

void HostsEngine::check(const jobspec::ResolvedJob& job, const std::filesystem::path&) const {
  if (!names_hosts(job.run_words) && !names_hosts(host_words_))
    throw InvalidInput("engine \"hosts\" needs hosts, and the job names none",
                       {.advice = "Give hosts = \"node1:4,node2:4\" or hostfile = FILE, or start "
                                  "the service with --hosts or --hostfile."});
}

void HostsEngine::submit(const AttemptRequest& request) {
  AttemptRequest placed = request;
  std::vector<std::string>& words = placed.job.run_words;
  const bool has_hosts = names_hosts(words);
  for (std::size_t i = 0; i + 1 < host_words_.size(); i += 2)
    if (!has_option(words, host_words_[i]) &&
        !(has_hosts && (host_words_[i] == "--hosts" || host_words_[i] == "--hostfile")))
      words.insert(words.end(), {host_words_[i], host_words_[i + 1]});
  LocalEngine::submit(placed);
}

}  // namespace cohort::engine
