#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "cohort/report/progress_format.h"

// OUTPUT/progress.json: how far a run is, for programs that watch it (`cohort serve`). One JSON
// object, replaced as a whole: {"time": UTC in milliseconds, "epoch", "epochs", "step", "steps",
// "fraction", "seconds_left", "workers"}; what is not known is left out.
namespace cohort::report {

inline constexpr const char* kProgressFile = "progress.json";

struct ProgressRecord {
  std::int64_t time = 0;           // when it was written, milliseconds since 1970
  std::optional<double> fraction;  // 0 to 1
  std::optional<double> seconds_left;
};

// Of the whole run; nothing when the number of epochs or of steps is not known.
std::optional<double> fraction_done(const ProgressState& state);

// False where the file cannot be written: no run is worth failing for it.
bool write_progress_file(const std::filesystem::path& path, const ProgressState& state);

// Nothing where there is no such file, or no such text in it. Follows no symbolic links.
std::optional<ProgressRecord> read_progress_file(const std::filesystem::path& path);

}  // namespace cohort::report
