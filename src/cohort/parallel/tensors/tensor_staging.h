#pragma once

#include <torch/torch.h>

#include <cstddef>

#include "cohort/collective/reduction/types.h"

namespace cohort::parallel {

// How a tensor's elements reach a group, which works on contiguous host memory: the tensor's own
// memory where it is that, else a copy. (GPU memory therefore goes through the host.)
// A value; keeps the tensor alive.
class StagedTensor {
 public:
  // `reduced`: its elements will be added up, so their type must be one that groups compute with;
  // otherwise any type travels, as bytes if need be. Throws InvalidInput for one that cannot.
  StagedTensor(const torch::Tensor& tensor, bool reduced);

  void* data() const { return host_.data_ptr(); }
  std::size_t count() const;  // elements of dtype()
  collective::DataType dtype() const { return dtype_; }

  // After a call that wrote into data(): the tensor has its result.
  void finish();

 private:
  torch::Tensor target_;
  torch::Tensor host_;
  collective::DataType dtype_;
};

// Throws as StagedTensor(tensor, true).
void check_reducible(const torch::Tensor& tensor);

// A contiguous host tensor shaped like `like` but for its first dimension, for a call's result.
torch::Tensor host_rows(const torch::Tensor& like, std::int64_t rows);

// The type in which elements that are only moved travel.
collective::DataType moving_type_of(torch::ScalarType type);
// How many elements of moving_type_of make one of `type`.
std::size_t moving_factor_of(torch::ScalarType type);

}  // namespace cohort::parallel
