#include "cohort/sdk/estimator.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/sdk/download.h"
#include "cohort/sdk/log_printer.h"
#include "cohort/sdk/service_client.h"

namespace cohort::sdk {
namespace {

std::string hyperparameter_json(const Hyperparameter& value) {
  if (const auto* json = std::get_if<Json>(&value)) return json->text;
  return std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, Json>)
          return held.text;
        else
          return nlohmann::json(held).dump();
      },
      value);
}

jobspec::JobSpec describe(const EstimatorOptions& options, const Inputs& inputs,
                          const std::string& job_name) {
  jobspec::JobSpec spec;
  spec.name = job_name;
  spec.engine = options.engine;
  spec.engine_options = options.engine_options;
  spec.program = options.program;
  spec.entry_point = options.entry_point;
  spec.source_dir = options.source_dir;
  spec.framework = options.framework;
  spec.framework_version = options.framework_version;
  spec.py_version = options.py_version;
  spec.image = options.image;
  for (const auto& [name, value] : options.hyperparameters)
    spec.hyperparameters.emplace_back(name, hyperparameter_json(value));
  spec.inputs = inputs;
  spec.output = options.output_path;
  spec.role = options.role;
  spec.instance_count = options.instance_count;
  spec.instance_type = options.instance_type;
  spec.distribution = options.distribution;
  spec.mpi = options.mpi;
  spec.elastic = options.elastic;
  spec.env = options.env;
  spec.queue = options.queue;
  spec.priority = options.priority;
  spec.max_run = options.max_run;
  spec.restarts = options.restarts;
  spec.metric_definitions = options.metric_definitions;
  spec.tags = options.tags;
  jobspec::anchor_paths(spec, std::filesystem::current_path());
  return spec;
}

// Hyperparameters of a job that was submitted before.
Hyperparameters hyperparameters_of(const std::string& spec) {
  Hyperparameters all;
  const auto json = nlohmann::ordered_json::parse(spec, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("hyperparameters")) return all;
  for (const auto& [name, value] : json["hyperparameters"].items()) {
    if (value.is_boolean())
      all.emplace_back(name, value.get<bool>());
    else if (value.is_number_integer())
      all.emplace_back(name, value.get<std::int64_t>());
    else if (value.is_number())
      all.emplace_back(name, value.get<double>());
    else if (value.is_string())
      all.emplace_back(name, value.get<std::string>());
    else
      all.emplace_back(name, Json{value.dump()});
  }
  return all;
}

LogPrinterOptions printer_options() {
  LogPrinterOptions options{.fd = STDOUT_FILENO};
  if (::isatty(STDOUT_FILENO) == 1) options.clean = escape_controls;
  return options;
}

}  // namespace

struct Estimator::State {
  EstimatorOptions options;
  std::string id;  // "": not submitted

  ServiceClient connected() const {
    if (id.empty())
      throw InvalidInput("the estimator has no job yet",
                         {.advice = "Call fit() or attach() first."});
    return ServiceClient(find_or_start_service());
  }
};

Estimator::Estimator(EstimatorOptions options)
    : state_(std::make_unique<State>(State{.options = std::move(options), .id = {}})) {}
Estimator::Estimator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;
Estimator& Estimator::operator=(Estimator&&) noexcept = default;

Estimator Estimator::attach(const std::string& job) {
  const Job found = ServiceClient(find_or_start_service()).job(job);
  auto state = std::make_unique<State>();
  state->id = found.id;
  state->options.hyperparameters = hyperparameters_of(found.spec);
  return Estimator(std::move(state));
}

void Estimator::fit(const Inputs& inputs, bool wait_for_it, Logs logs,
                    const std::string& job_name) {
  ServiceClient client(find_or_start_service());
  state_->id = client.submit(describe(state_->options, inputs, job_name)).id;
  if (wait_for_it) wait(logs);
}

void Estimator::fit(const std::string& training, bool wait_for_it, Logs logs,
                    const std::string& job_name) {
  fit(Inputs{{"training", training}}, wait_for_it, logs, job_name);
}

const std::string& Estimator::job_id() const {
  if (state_->id.empty())
    throw InvalidInput("the estimator has no job yet", {.advice = "Call fit() or attach() first."});
  return state_->id;
}

Job Estimator::status() const { return state_->connected().job(state_->id); }

void Estimator::wait(Logs logs) const {
  LogPrinter printer(printer_options());
  const LogQuery query{.tail = logs == Logs::none ? std::optional<int>(0) : std::nullopt};
  const JobEnd end = state_->connected().follow_logs(state_->id, query, [&](const LogText& piece) {
    if (logs == Logs::all) printer.print(piece);
  });
  if (end.state != "succeeded")
    throw Error(fmt::format("job {} {}: {}", state_->id, end.state,
                            end.reason.empty() ? "no reason is known" : end.reason),
                {.advice = fmt::format("See: cohort logs {}", state_->id)});
}

void Estimator::logs(bool follow) const {
  LogPrinter printer(printer_options());
  const auto print = [&](const LogText& piece) { printer.print(piece); };
  ServiceClient client = state_->connected();
  if (follow)
    client.follow_logs(state_->id, {}, print);
  else
    client.read_logs(state_->id, {}, 0, print);
}

void Estimator::stop() const { state_->connected().stop(state_->id); }

std::string Estimator::model_data() const {
  ServiceClient client = state_->connected();
  bool has_model = false;
  for (const auto& file : client.files(state_->id))
    has_model = has_model || file.path.starts_with("model/");
  if (!has_model)
    throw Error(fmt::format("job {} has left no model", state_->id),
                {.advice = "A program leaves one in the folder that SM_MODEL_DIR names."});
  if (client.address().socket.empty())
    return fmt::format("{}/v1/jobs/{}/archive?part=model", client.address().to_string(),
                       state_->id);
  return fmt::format("{}/jobs/{}/model", client.service().root, state_->id);
}

void Estimator::download(const std::filesystem::path& folder, const std::string& part) const {
  ServiceClient client = state_->connected();
  download_files(client, state_->id, part, folder);
}

const Hyperparameters& Estimator::hyperparameters() const {
  return state_->options.hyperparameters;
}

std::vector<Metric> Estimator::metrics(const std::string& name) const {
  return state_->connected().metrics(state_->id, name);
}

}  // namespace cohort::sdk
