#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"

namespace cohort::service {

struct LogValue {
  std::size_t definition = 0;  // its index
  double value = 0;
  std::optional<std::int64_t> step;  // of the group named "step", where there is one
};

// Finds numbers in lines of a log, as a job's metric_definitions say: the first group is the value,
// a group named "step" its step. In time linear in the line (RE2). Thread-compatible.
class LogMetrics {
 public:
  // An expression that is none, or has no group, finds nothing; problems() says so.
  explicit LogMetrics(std::vector<jobspec::MetricDefinition> definitions);
  ~LogMetrics();

  bool empty() const { return definitions_.empty(); }
  const std::vector<jobspec::MetricDefinition>& definitions() const { return definitions_; }
  const std::vector<std::string>& problems() const { return problems_; }

  // At most one value a definition. What the group found must be a number: "0.5", "1e-3", "nan".
  std::vector<LogValue> find(std::string_view line) const;

 private:
  struct Expression;

  std::vector<jobspec::MetricDefinition> definitions_;
  std::vector<Expression> expressions_;
  std::vector<std::string> problems_;
};

// Throws InvalidInput, with what problems() says, for definitions that would find nothing.
void require_expressions(const std::vector<jobspec::MetricDefinition>& definitions);

// The number that the whole of `text` is, spaces around it left out.
std::optional<double> parse_number(std::string_view text);

}  // namespace cohort::service
