#include "cohort/train/model.h"

#include "cohort/base/error.h"

namespace cohort::train {

Model Model::replicate(torch::Device device) const {
  Model copy = *this;
  if (make_) {
    copy.module_ = make_();
    copy.module_->to(device);
    return copy;
  }
  try {
    copy.module_ = module_->clone(device);
  } catch (const c10::Error&) {
    throw InvalidInput(
        fmt::format("the module {} cannot be copied for a second replica", module_->name()),
        {.advice = "Derive it from torch::nn::Cloneable, or give the Trainer a function that makes "
                   "one: [] { return std::make_shared<Net>(); }."});
  }
  return copy;
}

}  // namespace cohort::train
