#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/report/append_file.h"
#include "cohort/report/hparams.h"
#include "cohort/report/proto.h"

namespace cohort::report {

// Writes one TensorBoard event file, events.out.tfevents.TIME.HOST.PID.N, into a folder: a run. A
// second writer in the same folder adds a second file to the same run, as a resumed run does.
// Records are buffered as AppendFile says, and a failing write is its SystemError with the path.
// Tags with slashes are grouped by TensorBoard: "train/loss". Thread-compatible.
class EventWriter {
 public:
  // The folder is made if it is missing. Throws SystemError that names the path.
  explicit EventWriter(const std::filesystem::path& folder);

  void scalar(std::string_view tag, double value, std::int64_t step);

  // Values that are not finite are left out of the histogram; how many they were is then written as
  // the scalar TAG/non_finite.
  void histogram(std::string_view tag, std::span<const float> values, std::int64_t step);
  void histogram(std::string_view tag, std::span<const double> values, std::int64_t step);

  // TensorBoard renders Markdown.
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);

  // Begins the run's line in TensorBoard's table of hyperparameters. `metrics` are tags of scalars,
  // the columns that runs are compared by. Once a writer.
  void hyperparameters(const HyperParameters& parameters, const std::vector<std::string>& metrics);
  // Ends that line.
  void end_session(SessionStatus status);

  void flush() { file_.flush(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  template <typename T>
  void write_histogram(std::string_view tag, std::span<const T> values, std::int64_t step);
  void write_hparams(const HparamsEntry& entry);
  void write_value(const Proto& value, std::int64_t step);
  void write_record(const Proto& event);

  AppendFile file_;
};

}  // namespace cohort::report
