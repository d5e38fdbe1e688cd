#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace cohort::membership {

// Why the next view differs from the last, for people: the first few reasons, each once, and how
// many there are besides. Confined to one thread.
class ChangeReasons {
 public:
  void add(const std::string& reason) {
    if (std::find(reasons_.begin(), reasons_.end(), reason) != reasons_.end()) return;
    if (reasons_.size() < kMost)
      reasons_.push_back(reason);
    else
      ++more_;
  }
  bool empty() const { return reasons_.empty(); }
  std::string text() const {
    std::string text = fmt::format("{}", fmt::join(reasons_, "; "));
    if (more_ > 0) text += fmt::format("; and {} more", more_);
    return text;
  }

 private:
  static constexpr std::size_t kMost = 8;
  std::vector<std::string> reasons_;
  std::size_t more_ = 0;
};

}  // namespace cohort::membership
