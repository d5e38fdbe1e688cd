#include "bench/collective/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace cohort::bench {

namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 70, kRight = 160, kTop = 40, kBottom = 50;
constexpr double kMinX = 1.5, kMaxX = 8.6, kMinY = -3, kMaxY = 2.5;  // powers of ten

double x_of(double bytes) {
  return kLeft + (std::log10(bytes) - kMinX) / (kMaxX - kMinX) * (kWidth - kLeft - kRight);
}
double y_of(double rate) {
  const double power = std::clamp(std::log10(rate), kMinY, kMaxY);
  return kHeight - kBottom - (power - kMinY) / (kMaxY - kMinY) * (kHeight - kTop - kBottom);
}

}  // namespace

std::string plot(const std::string& title, const std::vector<Series>& series) {
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' font-family='sans-serif' "
      "font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{}' y='22' font-size='15'>{}</text>\n",
      kWidth, kHeight, kLeft, title);
  for (int power = -3; power <= 2; ++power) {
    const double y = y_of(std::pow(10, power));
    svg += fmt::format(
        "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>"
        "<text x='{}' y='{:.1f}' text-anchor='end'>{} GB/s</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 4, std::pow(10, power));
  }
  for (const auto& [bytes, label] : std::vector<std::pair<double, std::string>>{
           {64, "64 B"}, {1024, "1 kB"}, {65536, "64 kB"}, {1048576, "1 MB"}, {67108864, "64 MB"}})
    svg += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' stroke='#ddd'/>"
        "<text x='{0:.1f}' y='{3}' text-anchor='middle'>{4}</text>\n",
        x_of(bytes), kTop, kHeight - kBottom, kHeight - kBottom + 18, label);
  double legend = kTop + 10;
  for (const Series& line : series) {
    std::string points;
    for (const auto& [bytes, rate] : line.points)
      points += fmt::format("{:.1f},{:.1f} ", x_of(bytes), y_of(rate));
    svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", points,
                       line.color);
    svg += fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", kWidth - kRight + 10, legend,
                       line.color, line.name);
    legend += 18;
  }
  return svg + "</svg>\n";
}

}  // namespace cohort::bench
