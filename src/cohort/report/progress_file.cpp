#include "cohort/report/progress_file.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/report/file_part.h"

namespace cohort::report {
namespace {

constexpr std::size_t kMostProgressBytes = 4096;

std::optional<double> finite_number(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<double> fraction_done(const ProgressState& state) {
  if (state.epochs <= 0 || state.steps <= 0) return std::nullopt;
  const double epochs = static_cast<double>(state.epoch - 1) +
                        static_cast<double>(state.step) / static_cast<double>(state.steps);
  return std::clamp(epochs / static_cast<double>(state.epochs), 0.0, 1.0);
}

bool write_progress_file(const std::filesystem::path& path, const ProgressState& state) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  nlohmann::json record = {{"time", now.count()},
                           {"epoch", state.epoch},
                           {"step", state.step},
                           {"workers", state.workers}};
  if (state.epochs > 0) record["epochs"] = state.epochs;
  if (state.steps > 0) record["steps"] = state.steps;
  if (const auto fraction = fraction_done(state)) record["fraction"] = *fraction;
  if (state.seconds_left && std::isfinite(*state.seconds_left))
    record["seconds_left"] = *state.seconds_left;
  try {
    write_file_atomically(path, record.dump() + "\n");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::optional<ProgressRecord> read_progress_file(const std::filesystem::path& path) {
  try {
    const auto object = nlohmann::json::parse(read_file_part(path, 0, kMostProgressBytes).bytes);
    const auto time = finite_number(object, "time");
    if (!time || std::abs(*time) > 1e15) return std::nullopt;
    ProgressRecord record{.time = static_cast<std::int64_t>(*time),
                          .fraction = finite_number(object, "fraction"),
                          .seconds_left = finite_number(object, "seconds_left")};
    if (record.fraction) record.fraction = std::clamp(*record.fraction, 0.0, 1.0);
    return record;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace cohort::report
