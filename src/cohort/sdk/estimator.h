#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/sdk/service_values.h"

namespace cohort::sdk {

// A hyperparameter that is a list or an object: its JSON text.
struct Json {
  std::string text;
};
using Hyperparameter = std::variant<bool, std::int64_t, double, std::string, Json>;
using Hyperparameters = std::vector<std::pair<std::string, Hyperparameter>>;

// Channel names and where their data lie: {"training", "/data/mnist"}.
using Inputs = std::map<std::string, std::string>;

// What to train, with what, on how much: the fields of a job description (docs/platform.md), named
// as in the Python SDK. A program with its arguments, or an entry_point of source_dir.
struct EstimatorOptions {
  std::vector<std::string> program;
  std::string entry_point;
  std::string source_dir;
  std::string framework;
  std::string framework_version;
  std::string py_version;
  std::string image;
  Hyperparameters hyperparameters;
  std::string role;
  std::string output_path;

  int instance_count = 1;
  std::string instance_type = "local";
  jobspec::Distribution distribution = jobspec::Distribution::none;
  jobspec::MpiOptions mpi;
  std::optional<jobspec::ElasticRange> elastic;

  std::string engine = "local";
  std::vector<std::string> engine_options;  // words for its scheduler: "--account=vision"
  std::map<std::string, std::string> env;
  std::string queue = "default";
  int priority = 0;
  std::chrono::seconds max_run{0};  // 0: no limit
  std::optional<int> restarts;
  std::vector<jobspec::MetricDefinition> metric_definitions;
  std::map<std::string, std::string> tags;
};

// Which tasks' lines fit() and logs() print.
enum class Logs { none, all };

// Trains on a service: the one that COHORT_SERVICE names, else this user's own, which is started
// when it does not run. Without it nothing happens: the object is a description and a job's id.
//
// Threads: confined to one. Destroying it leaves the job alone.
// Failure: as ServiceClient; a job that failed is an Error whose text is the root cause.
class Estimator {
 public:
  explicit Estimator(EstimatorOptions options);
  ~Estimator();
  Estimator(Estimator&&) noexcept;
  Estimator& operator=(Estimator&&) noexcept;

  // A job that was submitted before, by id, its beginning, or name.
  static Estimator attach(const std::string& job);

  // Submits the job. With `wait` it returns when the job has succeeded, and prints its log
  // meanwhile, unless `logs` is none. `job_name` "": made from the program.
  void fit(const Inputs& inputs = {}, bool wait = true, Logs logs = Logs::all,
           const std::string& job_name = {});
  // The same, with one channel, "training".
  void fit(const std::string& training, bool wait = true, Logs logs = Logs::all,
           const std::string& job_name = {});

  // Of the newest job; InvalidInput before fit().
  const std::string& job_id() const;
  Job status() const;
  void wait(Logs logs = Logs::all) const;
  // Prints what was logged until now; with `follow` until the job has ended.
  void logs(bool follow = false) const;
  void stop() const;
  // The folder or place in which the trained model is. Throws Error where the job has left none.
  std::string model_data() const;
  // Copies the files of a part ("model", "output", "all") into `folder`.
  void download(const std::filesystem::path& folder, const std::string& part = "model") const;
  const Hyperparameters& hyperparameters() const;
  std::vector<Metric> metrics(const std::string& name = {}) const;

 private:
  struct State;
  explicit Estimator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::sdk
