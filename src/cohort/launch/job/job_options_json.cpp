#include "cohort/launch/job/job_options_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

using nlohmann::ordered_json;

constexpr std::pair<const char*, ChiefName> kChiefNames[] = {
    {"none", ChiefName::none}, {"chief", ChiefName::chief}, {"master", ChiefName::master}};
constexpr std::pair<const char*, Layout> kLayouts[] = {{"separate", Layout::separate},
                                                       {"colocated", Layout::colocated}};
constexpr std::pair<const char*, SuccessPolicy> kPolicies[] = {
    {"chief", SuccessPolicy::chief},
    {"worker0", SuccessPolicy::worker0},
    {"all-workers", SuccessPolicy::all_workers}};
constexpr std::pair<const char*, ProxyMode> kProxyModes[] = {
    {"bypass", ProxyMode::bypass}, {"strip", ProxyMode::strip}, {"keep", ProxyMode::keep}};

template <typename Choices, typename Value>
const char* word_for(const Choices& choices, Value value) {
  for (const auto& [word, choice] : choices)
    if (choice == value) return word;
  return "";
}

template <typename Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

// Reads an object's members by name and knows at the end whether one was left over.
class Reader {
 public:
  Reader(const ordered_json& object, std::string source)
      : object_(object), source_(std::move(source)) {
    if (!object_.is_object()) refuse("is no JSON object");
  }

  template <typename Value>
  void read(const char* key, Value& value) {
    const ordered_json& found = at(key);
    try {
      value = found.get<Value>();
    } catch (const nlohmann::json::exception&) {
      refuse_value(key, found);
    }
  }

  template <typename Value>
  void read(const char* key, std::optional<Value>& value) {
    if (at(key).is_null()) return;
    read(key, value.emplace());
  }

  void read(const char* key, std::filesystem::path& path) {
    std::string text;
    read(key, text);
    path = text;
  }

  void read(const char* key, std::chrono::milliseconds& duration) {
    std::int64_t count = 0;
    read(key, count);
    duration = std::chrono::milliseconds(count);
  }

  template <typename Choices, typename Value>
  void read_choice(const char* key, const Choices& choices, Value& value) {
    const ordered_json& found = at(key);
    for (const auto& [word, choice] : choices)
      if (found == word) {
        value = choice;
        return;
      }
    refuse_value(key, found);
  }

  const ordered_json& at(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(fmt::format("has no '{}'", key));
    seen_.insert(key);
    return *found;
  }

  void expect_nothing_else() const {
    for (const auto& [key, value] : object_.items())
      if (!seen_.contains(key)) refuse(fmt::format("has an unknown key '{}'", key));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidInput(fmt::format("{} {}", source_, what),
                       {.advice = "It was written by another version of Cohort, or changed: start "
                                  "the job anew with cohort run."});
  }

 private:
  [[noreturn]] void refuse_value(const char* key, const ordered_json& value) const {
    refuse(fmt::format("has {} as '{}'",
                       value.dump(-1, ' ', false, ordered_json::error_handler_t::replace), key));
  }

  const ordered_json& object_;
  std::string source_;
  std::set<std::string> seen_;
};

ordered_json hosts_to_json(const std::vector<Host>& hosts) {
  ordered_json list = ordered_json::array();
  for (const Host& host : hosts)
    list.push_back({{"name", host.name}, {"slots", or_null(host.slots)}});
  return list;
}

std::vector<Host> read_hosts(const ordered_json& list, const std::string& source) {
  std::vector<Host> hosts;
  for (const auto& item : list) {
    Reader reader(item, source + ": a host");
    Host& host = hosts.emplace_back();
    reader.read("name", host.name);
    reader.read("slots", host.slots);
    reader.expect_nothing_else();
  }
  return hosts;
}

ordered_json remote_to_json(const RemoteOptions& remote) {
  return {{"shell", remote.shell}, {"cohort", remote.cohort}, {"address", remote.address}};
}

RemoteOptions read_remote(const ordered_json& json, const std::string& source) {
  Reader reader(json, source + ": 'remote'");
  RemoteOptions remote;
  reader.read("shell", remote.shell);
  reader.read("cohort", remote.cohort);
  reader.read("address", remote.address);
  reader.expect_nothing_else();
  return remote;
}

ordered_json elastic_to_json(const ElasticOptions& elastic) {
  return {{"least", elastic.least},
          {"most", elastic.most},
          {"lease_ms", elastic.lease.count()},
          {"timeout_ms", elastic.timeout.count()},
          {"task_restarts", elastic.task_restarts},
          {"host_discovery_script", elastic.discovery_script.string()}};
}

ElasticOptions read_elastic(const ordered_json& json, const std::string& source) {
  Reader reader(json, source + ": 'elastic'");
  ElasticOptions elastic;
  reader.read("least", elastic.least);
  reader.read("most", elastic.most);
  reader.read("lease_ms", elastic.lease);
  reader.read("timeout_ms", elastic.timeout);
  reader.read("task_restarts", elastic.task_restarts);
  reader.read("host_discovery_script", elastic.discovery_script);
  reader.expect_nothing_else();
  return elastic;
}

}  // namespace

std::string to_json(const JobOptions& options) {
  ordered_json json;
  json["command"] = options.command;
  json["workers"] = options.workers;
  json["ps"] = options.ps;
  json["evaluator"] = options.evaluator;
  json["chief_name"] = word_for(kChiefNames, options.chief_name);
  json["coordinator"] = options.coordinator;
  json["layout"] = word_for(kLayouts, options.layout);
  json["strategy"] = options.strategy;
  json["output"] = options.output.string();
  json["keep"] = options.keep;
  json["success"] =
      options.success ? ordered_json(word_for(kPolicies, *options.success)) : ordered_json();
  json["grace_ms"] = options.grace.count();
  json["max_restarts"] = options.max_restarts;
  json["task_restarts"] = options.task_restarts;
  json["env"] = options.environment;
  json["scheduler_args"] = options.scheduler_args;
  json["gpus_per_worker"] = or_null(options.gpus_per_worker);
  json["threads_per_task"] = or_null(options.threads_per_task);
  json["proxy"] = word_for(kProxyModes, options.proxy);
  json["hosts"] = hosts_to_json(options.hosts);
  json["slots_per_host"] = or_null(options.slots_per_host);
  json["remote"] = remote_to_json(options.remote);
  json["show"] = options.show;
  json["quiet"] = options.quiet;
  json["horovod"] = options.horovod;
  json["elastic"] = options.elastic ? elastic_to_json(*options.elastic) : ordered_json();
  json["resume"] = options.resume;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

JobOptions job_options_from_json(std::string_view text, const std::string& source) {
  const auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  Reader reader(json, source);
  JobOptions options;
  reader.read("command", options.command);
  reader.read("workers", options.workers);
  reader.read("ps", options.ps);
  reader.read("evaluator", options.evaluator);
  reader.read_choice("chief_name", kChiefNames, options.chief_name);
  reader.read("coordinator", options.coordinator);
  reader.read_choice("layout", kLayouts, options.layout);
  reader.read("strategy", options.strategy);
  reader.read("output", options.output);
  reader.read("keep", options.keep);
  if (!reader.at("success").is_null())
    reader.read_choice("success", kPolicies, options.success.emplace());
  reader.read("grace_ms", options.grace);
  reader.read("max_restarts", options.max_restarts);
  reader.read("task_restarts", options.task_restarts);
  reader.read("env", options.environment);
  reader.read("scheduler_args", options.scheduler_args);
  reader.read("gpus_per_worker", options.gpus_per_worker);
  reader.read("threads_per_task", options.threads_per_task);
  reader.read_choice("proxy", kProxyModes, options.proxy);
  options.hosts = read_hosts(reader.at("hosts"), source);
  reader.read("slots_per_host", options.slots_per_host);
  options.remote = read_remote(reader.at("remote"), source);
  reader.read("show", options.show);
  reader.read("quiet", options.quiet);
  reader.read("horovod", options.horovod);
  if (!reader.at("elastic").is_null()) options.elastic = read_elastic(reader.at("elastic"), source);
  reader.read("resume", options.resume);
  reader.expect_nothing_else();
  return options;
}

}  // namespace cohort::launch
