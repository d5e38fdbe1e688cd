#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Metrics in files of a job's output folder: what Cohort's programs write (report/metrics_log.h,
// report/event_file.h), and others, too. Follow no symbolic links, never wait; a file that is not
// there has nothing. Throw SystemError. No state; any thread.
namespace cohort::service {

struct FileValue {
  std::string name;
  std::int64_t step = 0;
  double value = 0;
};

// The rows of a CSV file, at most 16 MiB of it, whose step is at least `from_step`: a file that
// goes on after a restart has no step twice. Columns "step" and "epoch", and what is no number, are
// left out.
std::vector<FileValue> read_metrics_csv(const std::filesystem::path& path, std::int64_t from_step);

// JSON lines ({"step": 3, "loss": 0.25}) from a line's beginning on. `next`: behind the last whole
// line that was read; a file that became shorter is read from its beginning.
struct JsonLinesPart {
  std::vector<FileValue> values;
  std::uint64_t next = 0;
  bool more = false;
};
JsonLinesPart read_metrics_json(const std::filesystem::path& path, std::uint64_t offset,
                                std::int64_t from_step, std::size_t most_bytes);

// The event files below the folder, sorted, relative to it. Looks at 10,000 entries at most, eight
// folders deep.
std::vector<std::filesystem::path> find_event_files(const std::filesystem::path& folder);

// What a scalar of an event file is called: the folder of the file (a run, in TensorBoard's words)
// and the tag. Cohort's own folder "tensorboard" is left out.
std::string event_metric_name(const std::filesystem::path& relative, const std::string& tag);

}  // namespace cohort::service
