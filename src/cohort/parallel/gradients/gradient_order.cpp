#include "cohort/parallel/gradients/gradient_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cohort::parallel {

GradientOrder::GradientOrder(std::size_t parameters, bool fixed)
    : order_(parameters), settled_(fixed || parameters == 0) {
  std::iota(order_.rbegin(), order_.rend(), 0);  // backward goes from the end
}

void GradientOrder::note(std::size_t parameter) {
  if (!settled_) seen_.push_back(static_cast<int>(parameter));
}

std::vector<std::int32_t> GradientOrder::take_seen() {
  const std::vector<int> seen = std::exchange(seen_, {});
  if (seen.empty()) return {};
  std::vector<std::int32_t> order(order_.begin(), order_.end());
  const auto position = [&](int parameter) {
    return std::find(seen.begin(), seen.end(), parameter) - seen.begin();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return position(a) < position(b); });
  return order;
}

void GradientOrder::settle(const std::vector<std::int32_t>& order) {
  settled_ = true;
  changed_ = !std::equal(order.begin(), order.end(), order_.begin(), order_.end());
  order_.assign(order.begin(), order.end());
}

bool GradientOrder::take_changed() { return std::exchange(changed_, false); }

}  // namespace cohort::parallel
