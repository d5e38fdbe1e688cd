#include "cohort/parallel/gradients/local_sum.h"

#include <cstring>

#include "cohort/collective/reduction/kernels.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

std::byte* raw_bytes(const torch::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

}  // namespace

LocalSum::LocalSum(const collective::ShardPlan& plan, std::size_t parameters)
    : plan_(plan), stacks_(parameters) {}

const collective::TreeReducer& LocalSum::reducer(int step, torch::ScalarType dtype) {
  const auto it = reducers_.find({step, dtype});
  if (it != reducers_.end()) return it->second;
  const collective::ShardPlan::Step& what = plan_.steps()[static_cast<std::size_t>(step)];
  const collective::Reduction reduction{data_type_of(dtype), collective::ReduceOp::sum,
                                        plan_.shards()};
  return reducers_
      .try_emplace({step, dtype}, collective::TreeReducer(reduction, what.node, what.inputs, true))
      .first->second;
}

void LocalSum::add(int step, int parameter, torch::Tensor gradient, Bucket& bucket,
                   std::size_t entry) {
  const collective::ShardPlan::Step& what = plan_.steps()[static_cast<std::size_t>(step)];
  const std::size_t elements = bucket.layout().entries[entry].elements;
  const torch::ScalarType dtype = bucket.layout().dtype;
  const std::size_t merged = what.inputs.size() - 1;
  std::vector<torch::Tensor>& stack = stacks_[static_cast<std::size_t>(parameter)];

  const bool kept = what.final >= 0 && bucket.keeps(what.final);
  if (merged == 0 && what.final >= 0 && !kept) {
    std::byte* to = bucket.partial(what.final, entry);
    const std::size_t bytes = elements * torch::elementSize(dtype);
    if (!gradient.defined())
      std::memset(to, 0, bytes);
    else if (raw_bytes(gradient) != to)
      collective::copy_bytes(to, raw_bytes(gradient), bytes);
    return;
  }
  if (!gradient.defined()) gradient = bucket.make_like(entry).zero_();
  if (merged == 0) {
    if (kept)
      bucket.keep(what.final, std::move(gradient));
    else
      stack.push_back(std::move(gradient));
    return;
  }

  const std::size_t below = stack.size() - merged;
  std::vector<const std::byte*> inputs;
  for (std::size_t i = below; i < stack.size(); ++i) inputs.push_back(raw_bytes(stack[i]));
  inputs.push_back(raw_bytes(gradient));
  torch::Tensor result;  // undefined: in the bucket
  if (what.final < 0 || kept) {
    const torch::ScalarType accumulator = accumulator_of(dtype);
    result = stack[below].scalar_type() == accumulator
                 ? stack[below]
                 : torch::empty({static_cast<std::int64_t>(elements)}, accumulator);
  }
  std::byte* to = result.defined() ? raw_bytes(result) : bucket.partial(what.final, entry);
  reducer(step, dtype).run(inputs, {&to, 1}, elements);
  stack.resize(below);
  if (kept)
    bucket.keep(what.final, std::move(result));
  else if (result.defined())
    stack.push_back(std::move(result));
}

}  // namespace cohort::parallel
