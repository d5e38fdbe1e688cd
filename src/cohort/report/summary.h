#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What a person reads at the end of a training run. Pure functions.
namespace cohort::report {

struct EpochSummary {
  std::int64_t epoch = 0;
  std::optional<double> loss, accuracy;                        // of training; accuracy 0 to 1
  std::optional<double> validation_loss, validation_accuracy;  // of the validation data
  double seconds = 0;
  std::optional<double> samples_per_second;   // of all workers together
  std::optional<double> communication_share;  // of the time, 0 to 1
  std::optional<double> data_share;           // of the time in which the chief waited for batches
};

struct RunSummary {
  std::vector<EpochSummary> epochs;
  double seconds = 0;        // the whole run
  std::int64_t samples = 0;  // trained on, by all workers together
  int workers = 1;
  std::optional<double> communication_share;
  std::optional<double> data_share;  // of the time in which the chief waited for batches
  std::string weights_sha256;        // of all parameters and buffers; empty: no such line
};

// The epoch with the best validation accuracy; without one, of training accuracy, validation loss,
// training loss, the first that is there. Nothing for a run without any; numbers that are not
// finite do not count; the earliest of equals.
std::optional<EpochSummary> best_epoch(const std::vector<EpochSummary>& epochs);

// A table of the epochs (the middle of a long run is left out), the best one, the totals, and as
// the last line `weights <sha256>`. Columns that no epoch has are left out. Ends with a line end.
std::string format_summary(const RunSummary& run);

}  // namespace cohort::report
