#include "cohort/jobspec/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/field_forms.h"
#include "cohort/jobspec/instance_type.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostInstances = 10'000;
constexpr int kMostProcessesPerHost = 4096;
constexpr int kMostRestarts = 1'000'000;
constexpr int kMostPriority = 1000;
constexpr int kMostGpus = 1024;
constexpr double kMostCores = 1'000'000;

Json unless_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <typename Map>
Json object_unless_empty(const Map& map) {
  Json object = Json::object();
  for (const auto& [name, value] : map) object[name] = value;
  return object.empty() ? Json() : object;
}

// A field that is a text without further rules.
template <std::string JobSpec::*Member>
constexpr Field plain_text(const char* name) {
  return {name, [](const Value& value, JobSpec& spec) { spec.*Member = value.text(); },
          [](const JobSpec& spec) { return unless_empty(spec.*Member); }};
}

void read_engine(const Value& value, JobSpec& spec) {
  static const std::vector<std::string> known = {"local", "hosts", "slurm", "kubernetes",
                                                 "attached"};
  spec.engine = value.text();
  if (std::find(known.begin(), known.end(), spec.engine) != known.end()) return;
  const std::string meant = nearest(spec.engine, known);
  value.refuse(fmt::format("must be one of {}", join(known, ", ")),
               meant.empty() ? "" : fmt::format("Did you mean {}?", meant));
}

void read_program(const Value& value, JobSpec& spec) {
  spec.program.clear();
  if (!value.is_array()) {
    spec.program.push_back(value.text());
    if (spec.program.front().find(' ') != std::string::npos)
      value.refuse("holds spaces", R"(Write it as an array: program = ["python3", "train.py"])");
    return;
  }
  for (const Value& element : value.elements()) spec.program.push_back(element.word());
  if (spec.program.empty() || spec.program.front().empty()) value.refuse("names no program");
}

void read_source(const Value& value, JobSpec& spec) {
  spec.source = value.text();
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (spec.source.size() != 64 || !std::all_of(spec.source.begin(), spec.source.end(), is_hex))
    value.refuse("must be a SHA-256: 64 hexadecimal digits");
}

void read_inputs(const Value& value, JobSpec& spec) {
  spec.inputs.clear();
  if (value.is_text()) {
    spec.inputs["training"] = value.text();
    return;
  }
  for (const auto& [channel, place] : value.entries()) {
    require_name(place, channel);
    spec.inputs[channel] = place.text();
  }
}

void read_memory(const Value& value, JobSpec& spec) {
  const auto bytes = parse_memory(value.word());
  if (!bytes || *bytes < (1u << 20))  // "4" is meant as gigabytes or megabytes
    value.refuse("must be an amount of at least 1 MiB", R"(Write it as in "2 GiB" or "512m".)");
  spec.memory_bytes = *bytes;
}

void read_mpi(const Value& value, MpiOptions& mpi) {
  for (const auto& [key, below] : value.entries()) {
    if (key == "enabled")
      continue;
    else if (key == "processes_per_host")
      mpi.processes_per_host = below.whole(1, kMostProcessesPerHost);
    else if (key == "custom_mpi_options")
      mpi.custom_options = below.is_text() && below.word().empty() ? "" : below.text();
    else
      below.refuse_key(key, {"enabled", "processes_per_host", "custom_mpi_options"});
  }
}

bool is_enabled(const Value& distribution) {
  for (const auto& [key, below] : distribution.entries())
    if (key == "enabled") return below.yes();
  return false;
}

void read_distributions(const Value& value, JobSpec& spec) {
  constexpr Distribution kAll[] = {Distribution::parameter_server, Distribution::mpi,
                                   Distribution::multi_worker_mirrored};
  spec.distribution = Distribution::none;
  spec.mpi = {};
  for (const auto& [name, below] : value.entries()) {
    const auto* found = std::find_if(std::begin(kAll), std::end(kAll),
                                     [&name](Distribution d) { return name_of(d) == name; });
    if (found == std::end(kAll))
      below.refuse_key(name, {"parameter_server", "mpi", "multi_worker_mirrored"});
    MpiOptions mpi;
    if (*found == Distribution::mpi)
      read_mpi(below, mpi);
    else
      for (const auto& [key, setting] : below.entries())
        if (key != "enabled") setting.refuse_key(key, {"enabled"});
    if (!is_enabled(below)) continue;
    if (spec.distribution != Distribution::none)
      value.refuse(fmt::format("enables both {} and {}: a job has one distribution",
                               name_of(spec.distribution), name));
    spec.distribution = *found;
    if (*found == Distribution::mpi) spec.mpi = mpi;
  }
}

Json write_distributions(const JobSpec& spec) {
  if (spec.distribution == Distribution::none) return {};
  Json one{{"enabled", true}};
  if (spec.distribution == Distribution::mpi) {
    one["processes_per_host"] = spec.mpi.processes_per_host;
    if (!spec.mpi.custom_options.empty()) one["custom_mpi_options"] = spec.mpi.custom_options;
  }
  return Json{{std::string(name_of(spec.distribution)), one}};
}

// A table is the range; true is the option of `cohort run`, whose range stands in `workers`.
void read_elastic(const Value& value, JobSpec& spec) {
  spec.elastic.reset();
  std::erase_if(spec.run_options, [](const auto& option) { return option.first == "elastic"; });
  if (!value.is_object()) {
    if (value.yes()) spec.run_options.emplace_back("elastic", "true");
    return;
  }
  ElasticRange range{.least = 1, .most = 0};
  for (const auto& [key, below] : value.entries()) {
    if (key == "min")
      range.least = below.whole(1, kMostInstances);
    else if (key == "max")
      range.most = below.whole(1, kMostInstances);
    else
      below.refuse_key(key, {"min", "max"});
  }
  if (range.least > range.most)
    value.refuse("must have a max that is at least its min", "Write it as {min = 2, max = 8}.");
  spec.elastic = range;
}

void read_env(const Value& value, JobSpec& spec) {
  spec.env.clear();
  const auto add = [&spec](const Value& at, const std::string& name, const std::string& text) {
    if (name.empty() || name.find('=') != std::string::npos)
      at.refuse("is not of the form NAME=VALUE");
    spec.env[name] = text;
  };
  if (value.is_object()) {
    for (const auto& [name, below] : value.entries()) add(below, name, below.word());
    return;
  }
  for (const Value& element : value.is_text() ? std::vector<Value>{value} : value.elements()) {
    const std::string setting = element.text();
    const auto equals = setting.find('=');
    if (equals == std::string::npos) add(element, "", "");
    add(element, setting.substr(0, equals), setting.substr(equals + 1));
  }
}

void read_max_run(const Value& value, JobSpec& spec) {
  const auto time = parse_duration(value.word());
  if (!time)
    value.refuse("must be seconds or a time up to ten years", R"(Write it as in "2h30m".)");
  spec.max_run = *time;
}

// [{Name = "loss", Regex = "loss=([0-9.]+)"}], as the platforms have it; small letters, too.
std::pair<std::string, std::string> read_pair(const Value& value, const std::string& first,
                                              const std::string& second, bool may_be_empty) {
  std::pair<std::string, std::string> result;
  bool has_second = false;
  for (const auto& [key, below] : value.entries()) {
    std::string small = key;
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (small == first) {
      result.first = below.text();
    } else if (small == second) {
      result.second = may_be_empty ? below.word() : below.text();
      has_second = true;
    } else {
      below.refuse_key(key, {first, second});
    }
  }
  if (result.first.empty() || !has_second)
    value.refuse(fmt::format("must have {} and {}", first, second));
  return result;
}

constexpr std::size_t kMostMetricDefinitions = 100;  // each is tried on every line

void read_metric_definitions(const Value& value, JobSpec& spec) {
  spec.metric_definitions.clear();
  const auto elements = value.elements();
  if (elements.size() > kMostMetricDefinitions)
    value.refuse(fmt::format("has {} definitions; the most are {}", elements.size(),
                             kMostMetricDefinitions));
  for (const Value& element : elements) {
    auto [name, regex] = read_pair(element, "name", "regex", false);
    spec.metric_definitions.push_back({.name = std::move(name), .regex = std::move(regex)});
  }
}

void read_tags(const Value& value, JobSpec& spec) {
  spec.tags.clear();
  if (value.is_array()) {
    for (const Value& element : value.elements())
      spec.tags.insert(read_pair(element, "key", "value", true));
    return;
  }
  for (const auto& [name, below] : value.entries()) spec.tags[name] = below.word();
}

std::vector<Field> make_fields() {
  return {
      {"name",
       [](const Value& value, JobSpec& spec) {
         spec.name = value.text();
         require_name(value, spec.name);
       },
       [](const JobSpec& spec) { return unless_empty(spec.name); }},
      {"engine", read_engine,
       [](const JobSpec& spec) { return spec.engine == "local" ? Json() : Json(spec.engine); }},
      {"engine_options",
       [](const Value& value, JobSpec& spec) {
         spec.engine_options.clear();
         for (const Value& element : value.elements())
           spec.engine_options.push_back(element.text());
       },
       [](const JobSpec& spec) {
         return spec.engine_options.empty() ? Json() : Json(spec.engine_options);
       }},
      {"program", read_program,
       [](const JobSpec& spec) { return spec.program.empty() ? Json() : Json(spec.program); }},
      plain_text<&JobSpec::entry_point>("entry_point"),
      plain_text<&JobSpec::source_dir>("source_dir"),
      {"source", read_source, [](const JobSpec& spec) { return unless_empty(spec.source); }},
      plain_text<&JobSpec::framework>("framework"),
      plain_text<&JobSpec::framework_version>("framework_version"),
      plain_text<&JobSpec::py_version>("py_version"),
      plain_text<&JobSpec::image>("image"),
      {"hyperparameters",
       [](const Value& value, JobSpec& spec) {
         spec.hyperparameters.clear();
         for (const auto& [name, below] : value.entries()) {
           require_option_name(below, name);
           if (below.json().is_null()) below.refuse("a hyperparameter needs a value");
           spec.hyperparameters.emplace_back(name, below.json().dump());
         }
       },
       [](const JobSpec& spec) { return json_object(spec.hyperparameters); }},
      {"inputs", read_inputs, [](const JobSpec& spec) { return object_unless_empty(spec.inputs); }},
      plain_text<&JobSpec::output>("output"),
      plain_text<&JobSpec::role>("role"),
      {"instance_count",
       [](const Value& value, JobSpec& spec) {
         spec.instance_count = value.whole(1, kMostInstances);
       },
       [](const JobSpec& spec) {
         return spec.instance_count ? Json(*spec.instance_count) : Json();
       }},
      plain_text<&JobSpec::instance_type>("instance_type"),
      {"cores", [](const Value& value, JobSpec& spec) { spec.cores = value.number(0, kMostCores); },
       [](const JobSpec& spec) { return spec.cores ? Json(*spec.cores) : Json(); }},
      {"memory", read_memory,
       [](const JobSpec& spec) {
         return spec.memory_bytes ? Json(memory_text(*spec.memory_bytes)) : Json();
       }},
      {"gpus", [](const Value& value, JobSpec& spec) { spec.gpus = value.whole(0, kMostGpus); },
       [](const JobSpec& spec) { return spec.gpus ? Json(*spec.gpus) : Json(); }},
      {"strict_resources",
       [](const Value& value, JobSpec& spec) { spec.strict_resources = value.yes(); },
       [](const JobSpec& spec) { return spec.strict_resources ? Json(true) : Json(); }},
      {"distributions", read_distributions, write_distributions},
      {"elastic", read_elastic,
       [](const JobSpec& spec) {
         return spec.elastic ? Json{{"min", spec.elastic->least}, {"max", spec.elastic->most}}
                             : Json();
       }},
      {"env", read_env, [](const JobSpec& spec) { return object_unless_empty(spec.env); }},
      {"queue",
       [](const Value& value, JobSpec& spec) {
         spec.queue = value.text();
         require_name(value, spec.queue);
       },
       [](const JobSpec& spec) { return spec.queue == "default" ? Json() : Json(spec.queue); }},
      {"priority",
       [](const Value& value, JobSpec& spec) {
         spec.priority = value.whole(-kMostPriority, kMostPriority);
       },
       [](const JobSpec& spec) { return spec.priority == 0 ? Json() : Json(spec.priority); }},
      {"max_run", read_max_run,
       [](const JobSpec& spec) {
         return spec.max_run.count() == 0 ? Json() : Json(spec.max_run.count());
       }},
      {"restarts",
       [](const Value& value, JobSpec& spec) { spec.restarts = value.whole(0, kMostRestarts); },
       [](const JobSpec& spec) { return spec.restarts ? Json(*spec.restarts) : Json(); }},
      {"metric_definitions", read_metric_definitions,
       [](const JobSpec& spec) {
         Json list = Json::array();
         for (const auto& [name, regex] : spec.metric_definitions)
           list.push_back({{"name", name}, {"regex", regex}});
         return list.empty() ? Json() : list;
       }},
      {"tags", read_tags, [](const JobSpec& spec) { return object_unless_empty(spec.tags); }},
  };
}

}  // namespace

const std::vector<Field>& all_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

const Field* find_field(std::string_view name) {
  for (const Field& field : all_fields())
    if (field.name == name) return &field;
  return nullptr;
}

}  // namespace cohort::jobspec
