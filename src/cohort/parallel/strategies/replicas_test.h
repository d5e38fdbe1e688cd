#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "cohort/collective/form.h"
#include "cohort/collective/reduction/tree.h"
#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::parallel {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// For tests: `body` on `size` replicas at once, a thread each; what each threw, or null.
inline std::vector<std::exception_ptr> try_replicas(
    int size, const std::function<void(collective::Group& group)>& body) {
  auto groups = size == 1 ? std::vector<std::unique_ptr<collective::Group>>()
                          : collective::make_inproc_groups(size, std::chrono::seconds(20));
  if (size == 1) groups.push_back(collective::make_group_of_one());
  std::vector<std::exception_ptr> errors(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*groups[rank]);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::string what_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

inline void run_replicas(int size, const std::function<void(collective::Group& group)>& body) {
  for (const std::exception_ptr& error : try_replicas(size, body)) EXPECT_EQ(what_of(error), "");
}

template <typename Module>
NamedTensors parameters_of(const Module& module) {
  NamedTensors parameters;
  for (const auto& item : module->named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return parameters;
}

template <typename Module>
NamedTensors buffers_of(const Module& module) {
  NamedTensors buffers;
  for (const auto& item : module->named_buffers()) buffers.emplace_back(item.key(), item.value());
  return buffers;
}

// The sum of values[first, first + count) in the one order of addition (docs/algorithms.md).
inline torch::Tensor tree_sum(const std::vector<torch::Tensor>& values, std::size_t first,
                              std::size_t count) {
  if (count == 1) return values[first];
  const auto left = static_cast<std::size_t>(collective::left_leaves(static_cast<int>(count)));
  return tree_sum(values, first, left) + tree_sum(values, first + left, count - left);
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.detach().contiguous();
  const torch::Tensor y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<std::size_t>(x.nbytes())) == 0;
}

}  // namespace cohort::parallel
