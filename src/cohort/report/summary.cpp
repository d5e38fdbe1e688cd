#include "cohort/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cohort/report/progress_format.h"

namespace cohort::report {
namespace {

constexpr std::size_t kMostRows = 20;
constexpr std::size_t kFirstRows = 5;  // of a longer run; the rest are its last ones

using Value = std::optional<double> EpochSummary::*;

struct Metric {
  Value value;
  const char* title;
  bool higher_is_better;
};
constexpr Metric kByImportance[] = {
    {&EpochSummary::validation_accuracy, "val acc", true},
    {&EpochSummary::accuracy, "acc", true},
    {&EpochSummary::validation_loss, "val loss", false},
    {&EpochSummary::loss, "loss", false},
};

std::string percent(double share) { return fmt::format("{:.2f}%", share * 100); }

struct Column {
  std::string title;
  std::vector<std::string> cells;
};

std::vector<Column> make_columns(const std::vector<EpochSummary>& epochs) {
  std::vector<Column> columns;
  auto add = [&](const char* title, auto cell) {
    Column column{.title = title};
    for (const auto& epoch : epochs) column.cells.push_back(cell(epoch));
    bool empty = std::all_of(column.cells.begin(), column.cells.end(),
                             [](const auto& text) { return text.empty(); });
    if (!empty) columns.push_back(std::move(column));
  };
  auto optional = [](Value value, auto format) {
    return [=](const EpochSummary& epoch) {
      return epoch.*value ? format(*(epoch.*value)) : std::string();
    };
  };
  add("epoch", [](const auto& epoch) { return fmt::format("{}", epoch.epoch); });
  add("loss", optional(&EpochSummary::loss, format_loss));
  add("acc", optional(&EpochSummary::accuracy, percent));
  add("val loss", optional(&EpochSummary::validation_loss, format_loss));
  add("val acc", optional(&EpochSummary::validation_accuracy, percent));
  add("time", [](const auto& epoch) { return format_duration(epoch.seconds); });
  add("samples/s", optional(&EpochSummary::samples_per_second, format_rate));
  add("comm", optional(&EpochSummary::communication_share, percent));
  add("data", optional(&EpochSummary::data_share, percent));
  return columns;
}

std::string format_table(const std::vector<EpochSummary>& epochs) {
  auto columns = make_columns(epochs);
  std::string text;
  auto add_line = [&](auto cell_of) {
    for (const auto& column : columns) {
      std::size_t width = column.title.size();
      for (const auto& cell : column.cells) width = std::max(width, cell.size());
      text +=
          fmt::format("{}{:>{}}", &column == &columns.front() ? "" : "  ", cell_of(column), width);
    }
    text += '\n';
  };
  add_line([](const Column& column) { return column.title; });
  std::size_t count = epochs.size();
  std::size_t last_rows = kMostRows - kFirstRows;
  for (std::size_t i = 0; i < count; ++i) {
    if (count > kMostRows && i == kFirstRows) {
      text += fmt::format("... {} epochs more\n", count - kMostRows);
      i = count - last_rows;
    }
    add_line([&](const Column& column) { return column.cells[i]; });
  }
  return text;
}

const Metric* metric_of(const std::vector<EpochSummary>& epochs) {
  for (const auto& metric : kByImportance)
    for (const auto& epoch : epochs)
      if (epoch.*metric.value && std::isfinite(*(epoch.*metric.value))) return &metric;
  return nullptr;
}

std::string format_best(const std::vector<EpochSummary>& epochs) {
  auto best = best_epoch(epochs);
  if (!best) return "";
  const Metric& metric = *metric_of(epochs);
  double value = *((*best).*metric.value);
  return fmt::format("best    epoch {}, {} {}\n", best->epoch, metric.title,
                     metric.higher_is_better ? percent(value) : format_loss(value));
}

}  // namespace

std::optional<EpochSummary> best_epoch(const std::vector<EpochSummary>& epochs) {
  const Metric* metric = metric_of(epochs);
  if (!metric) return std::nullopt;
  const EpochSummary* best = nullptr;
  for (const auto& epoch : epochs) {
    const auto& value = epoch.*metric->value;
    if (!value || !std::isfinite(*value)) continue;
    if (!best || (metric->higher_is_better ? *value > *(best->*metric->value)
                                           : *value < *(best->*metric->value)))
      best = &epoch;
  }
  return *best;
}

std::string format_summary(const RunSummary& run) {
  std::string text;
  if (!run.epochs.empty()) text += format_table(run.epochs);
  text += format_best(run.epochs);
  text += fmt::format("total   {}, {} samples", format_duration(run.seconds), run.samples);
  if (run.seconds > 0)
    text +=
        fmt::format(", {} samples/s", format_rate(static_cast<double>(run.samples) / run.seconds));
  text += fmt::format(", {} worker{}", run.workers, run.workers == 1 ? "" : "s");
  if (run.communication_share)
    text += fmt::format(", {} of the time in communication", percent(*run.communication_share));
  if (run.data_share) text += fmt::format(", {} waiting for data", percent(*run.data_share));
  text += '\n';
  if (!run.weights_sha256.empty()) text += fmt::format("weights {}\n", run.weights_sha256);
  return text;
}

}  // namespace cohort::report
