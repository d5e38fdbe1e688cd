#pragma once

#include <string>
#include <vector>

namespace cohort::bench {

struct Series {
  std::string name;
  std::string color;
  std::vector<std::pair<double, double>> points;  // (bytes, GB/s)
};

// An SVG of bandwidth over message size, both axes logarithmic.
std::string plot(const std::string& title, const std::vector<Series>& series);

}  // namespace cohort::bench
