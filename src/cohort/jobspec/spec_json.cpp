#include "cohort/jobspec/spec_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/jobspec/document.h"
#include "cohort/jobspec/read_spec.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;
using Kind = RuntimeEnvironment::Kind;

constexpr std::pair<Kind, const char*> kKinds[] = {
    {Kind::at_hand, "at_hand"}, {Kind::venv, "venv"}, {Kind::image, "image"}};

Json write_runtime(const RuntimeEnvironment& runtime) {
  Json json{{"kind", nullptr}, {"place", runtime.place}, {"version", runtime.version}};
  for (const auto& [kind, name] : kKinds)
    if (kind == runtime.kind) json["kind"] = name;
  return json;
}

RuntimeEnvironment read_runtime(const Json& json) {
  RuntimeEnvironment runtime{.place = json.at("place"), .version = json.at("version")};
  for (const auto& [kind, name] : kKinds)
    if (json.at("kind") == name) runtime.kind = kind;
  return runtime;
}

}  // namespace

JobSpec spec_from_json(std::string_view text, const KnownOptions& known) {
  return read_spec(parse_json_document(text), Source{}, &known);
}

std::string to_json(const JobSpec& spec) { return write_spec(spec).dump(); }

std::string to_json(const ResolvedJob& job) {
  const Size& size = job.instance;
  return Json{{"spec", write_spec(job.spec)},
              {"instances", job.instances},
              {"instance",
               {{"cores", size.cores}, {"memory_bytes", size.memory_bytes}, {"gpus", size.gpus}}},
              {"processes", job.processes},
              {"colocated_servers", job.colocated_servers},
              {"run_words", job.run_words},
              {"program", job.program},
              {"mpirun_words", job.mpirun_words},
              {"env", job.env},
              {"runtime", write_runtime(job.runtime)},
              {"notes", job.notes}}
      .dump(2);
}

ResolvedJob resolved_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);  // larger than a description may be
    const Json& size = json.at("instance");
    return {.spec = read_spec(json.at("spec"), Source{}, nullptr),
            .instances = json.at("instances"),
            .instance = {.cores = size.at("cores"),
                         .memory_bytes = size.at("memory_bytes"),
                         .gpus = size.at("gpus")},
            .processes = json.at("processes"),
            .colocated_servers = json.at("colocated_servers"),
            .run_words = json.at("run_words").get<std::vector<std::string>>(),
            .program = json.at("program").get<std::vector<std::string>>(),
            .mpirun_words = json.at("mpirun_words").get<std::vector<std::string>>(),
            .env = json.at("env").get<std::map<std::string, std::string>>(),
            .runtime = read_runtime(json.at("runtime")),
            .notes = json.at("notes").get<std::vector<std::string>>()};
  } catch (const Json::exception& error) {
    throw InvalidInput(fmt::format("this is no resolved job: {}", error.what()));
  }
}

}  // namespace cohort::jobspec
