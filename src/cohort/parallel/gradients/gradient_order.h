#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort::parallel {

// The order in which a step's gradients are expected, and by which parameters are cut into buckets:
// the same on all ranks. At first that of a backward through the parameters from last to first;
// then, once, the one in which they came (settle()). Confined to one thread at a time.
class GradientOrder {
 public:
  // `fixed`: the first order stays.
  GradientOrder(std::size_t parameters, bool fixed);

  const std::vector<int>& order() const { return order_; }
  bool is_settled() const { return settled_; }

  void note(std::size_t parameter);  // its gradient came, as the next one of the step
  // What came in this step, then what did not; empty where nothing came. Forgets what came.
  std::vector<std::int32_t> take_seen();
  void settle(const std::vector<std::int32_t>& order);
  bool take_changed();  // whether settle() changed the order, once

 private:
  std::vector<int> order_;
  std::vector<int> seen_;
  bool settled_;
  bool changed_ = false;
};

}  // namespace cohort::parallel
