#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cohort/train/data/tensor_tree.h"

namespace cohort::train {

class AnyBatch;

// What a batch may be: a tensor tree (tensor_tree.h) that can be copied.
template <typename B>
concept BatchType = TensorTree<B> && !std::same_as<B, AnyBatch>;

// A batch of any type, where the type does not matter: what is loaded, moved, cut and handed to the
// function that knows it.
//
// A value; copies share the tensors, which no one changes. Thread-safe to read.
// Failure: InvalidInput where it is asked for as another type, or its tensors have different
// numbers of rows.
class AnyBatch {
 public:
  AnyBatch() = default;  // no samples, of no type
  template <BatchType B>
  AnyBatch(B batch) : content_(std::make_shared<const ContentOf<B>>(std::move(batch))) {}  // NOLINT

  template <BatchType B>
  bool is() const {
    return content_ && content_->type() == typeid(B);
  }
  template <BatchType B>
  const B& as() const {
    check_type(typeid(B));
    return static_cast<const ContentOf<B>&>(*content_).batch;
  }

  // Samples: the first dimension, which all tensors that have dimensions share.
  std::int64_t size() const;
  // All tensors that are defined, in the tree's order.
  std::vector<torch::Tensor> tensors() const;

  // What a computation with it may depend on beside its tensors' values: their types and shapes, and how
  // they are arranged. Nothing: also on other values, which it holds or may hold.
  std::optional<std::vector<std::string>> arrangement() const;

  // The same type, with every tensor on `device`; with the rows [first, first + count) of every
  // tensor that has dimensions. A copy from pinned memory goes on while the caller does.
  AnyBatch to(torch::Device device) const;
  AnyBatch narrow(std::int64_t first, std::int64_t count) const;
  // The same type with tensors of its own, and the values of another batch of the same shapes in them.
  AnyBatch clone() const;
  void copy_from(const AnyBatch& other);
  // The same in page-locked memory, from which a GPU copies by itself. Needs CUDA.
  AnyBatch pin_memory() const;
  // The same type with change(tensor) in the place of every tensor.
  using Change = std::function<torch::Tensor(const torch::Tensor&)>;
  AnyBatch map(const Change& change) const;

 private:
  struct Content {
    virtual ~Content() = default;
    virtual const std::type_info& type() const = 0;
    virtual void each(const std::function<void(const torch::Tensor&)>& look) const = 0;
    virtual std::optional<std::vector<std::string>> arrangement() const = 0;
    virtual std::shared_ptr<const Content> map(const Change& change) const = 0;
  };
  template <typename B>
  struct ContentOf final : Content {
    explicit ContentOf(B given) : batch(std::move(given)) {}
    const std::type_info& type() const override { return typeid(B); }
    void each(const std::function<void(const torch::Tensor&)>& look) const override {
      for_each_tensor(batch, look);
    }
    std::optional<std::vector<std::string>> arrangement() const override {
      if constexpr (tree_detail::holds_only_tensors<B>()) {
        std::vector<std::string> all;
        auto note = [&all](std::string text) { all.push_back(std::move(text)); };
        visit_arrangement(batch, note);
        return all;
      } else {
        return std::nullopt;
      }
    }
    std::shared_ptr<const Content> map(const Change& change) const override {
      return std::make_shared<const ContentOf>(map_tensors(batch, change));
    }
    B batch;
  };

  void check_type(const std::type_info& wanted) const;

  std::shared_ptr<const Content> content_;  // null: no samples
};

// The name of a type, as people write it.
std::string type_name(const std::type_info& type);

// InvalidInput unless the batch has one row for each of `asked` samples.
void check_rows(const AnyBatch& batch, std::int64_t asked);

}  // namespace cohort::train
