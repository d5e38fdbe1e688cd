#include "cohort/report/progress_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cohort/report/live_line.h"

namespace cohort::report {
namespace {

constexpr int kMaxBar = 24;
constexpr int kMinBar = 8;

std::string of_total(std::int64_t done, std::int64_t total) {
  return total > 0 ? fmt::format("{}/{}", done, total) : fmt::format("{}", done);
}

std::string bar(double share, int cells) {
  auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * cells);
  return "[" + std::string(full, '#') + std::string(static_cast<std::size_t>(cells) - full, '-') +
         "]";
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  constexpr double kMost = 1e9;
  auto whole = static_cast<std::int64_t>(std::clamp(std::round(seconds), 0.0, kMost));
  std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

std::string format_loss(double loss) {
  double size = std::abs(loss);
  bool plain = !std::isfinite(loss) || loss == 0 || (size >= 0.001 && size < 10'000);
  return plain ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss);
}

std::string format_rate(double per_second) {
  return fmt::format("{:.{}f}", per_second, per_second >= 100 ? 0 : per_second >= 10 ? 1 : 2);
}

std::string format_progress(const ProgressState& state, int width) {
  struct Field {
    int importance;  // the smallest goes first; the place is never left out
    std::string text;
  };
  std::vector<Field> fields;
  auto add = [&](int importance, std::string text) {
    fields.push_back({importance, std::move(text)});
  };
  if (state.loss) add(7, "loss " + format_loss(*state.loss));
  if (state.accuracy) add(5, fmt::format("acc {:.1f}%", *state.accuracy * 100));
  if (state.samples_per_second) add(4, format_rate(*state.samples_per_second) + " samples/s");
  if (state.seconds_left) add(6, format_duration(*state.seconds_left) + " left");
  add(1, fmt::format("{} worker{}", state.workers, state.workers == 1 ? "" : "s"));
  if (state.communication_share)
    add(3, fmt::format("comm {:.1f}%", *state.communication_share * 100));
  if (state.data_share) add(2, fmt::format("data {:.1f}%", *state.data_share * 100));

  std::string epoch =
      state.epoch > 0 ? fmt::format("epoch {} ", of_total(state.epoch, state.epochs)) : "";
  std::string step = of_total(state.step, state.steps);
  auto rest = [&] {
    std::string text = step;
    for (const auto& field : fields) text += "  " + field.text;
    return text;
  };
  if (width <= 0) return epoch + rest();

  auto columns = [&] { return static_cast<int>(epoch.size() + rest().size()); };
  while (columns() > width && !fields.empty())
    fields.erase(std::min_element(fields.begin(), fields.end(), [](const auto& a, const auto& b) {
      return a.importance < b.importance;
    }));
  int cells = std::min(kMaxBar, width - columns() - 3);  // brackets and a space
  if (state.steps > 0 && cells >= kMinBar)
    epoch += bar(static_cast<double>(state.step) / static_cast<double>(state.steps), cells) + " ";
  return clip_columns(epoch + rest(), width);
}

}  // namespace cohort::report
