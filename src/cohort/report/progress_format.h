#pragma once

#include <cstdint>
#include <optional>
#include <string>

// How far a run is, as one line of text. Pure functions.
namespace cohort::report {

struct ProgressState {
  std::int64_t epoch = 0, epochs = 0;  // from 1; `epochs` 0: not known
  std::int64_t step = 0, steps = 0;    // done in this epoch; `steps` 0: not known
  std::optional<double> loss;
  std::optional<double> accuracy;            // 0 to 1
  std::optional<double> samples_per_second;  // of all workers together
  std::optional<double> seconds_left;
  int workers = 1;
  std::optional<double> communication_share;  // of the time, 0 to 1
  std::optional<double> data_share;           // of the time in which the chief waited for batches
};

// "epoch 2/3 [#####-----] 412/938  loss 0.3127  acc 89.1%  3214 samples/s  0:42 left  2 workers
// comm 4.1%  data 0.2%". What does not fit into `width` columns is left out, the least important
// first: the bar, workers, data, comm, samples/s, acc, time left, loss. Width 0: everything but the bar, for files.
std::string format_progress(const ProgressState& state, int width);

std::string format_duration(double seconds);  // 0:07, 12:34, 3:05:10
std::string format_loss(double loss);         // 0.3127, 1.200e-05, nan
std::string format_rate(double per_second);   // 3214, 41.5, 0.75

}  // namespace cohort::report
