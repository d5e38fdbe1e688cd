#pragma once

#include <torch/torch.h>

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace cohort::train {

template <typename T>
concept ModuleClass = std::derived_from<T, torch::nn::Module>;

// A function that returns a module. Holders (TORCH_MODULE) can be called too, but are modules.
template <typename T>
concept ModuleMaker =
    !std::is_base_of_v<torch::detail::ModuleHolderIndicator, T> && std::is_invocable_v<T>;

// A module with a forward() from one tensor to one tensor.
template <typename M>
concept HasForward = requires(M& module, const torch::Tensor& input) {
  { module.forward(input) } -> std::convertible_to<torch::Tensor>;
};

// Any torch::nn::Module, together with its forward() where it has one from one tensor to one, which
// LibTorch does not declare in the base class. Made from what a LibTorch program has in its hands:
//
//   auto net = std::make_shared<Net>();   Model(net)
//   Net net;  (TORCH_MODULE)              Model(net)
//   Model([] { return std::make_shared<Net>(); })        makes a fresh one for every replica
//
// More than one replica in a process (mirrored) needs copies: modules derived from
// torch::nn::Cloneable (all of LibTorch's own) give them; for others, give the function.
// A value type; copies share the module. Thread-compatible. Failure: forward() of a module that has
// none is InvalidInput.
class Model {
 public:
  using Forward = std::function<torch::Tensor(torch::nn::Module&, const torch::Tensor&)>;

  // Implicit, as LibTorch's users pass modules around.
  template <ModuleClass M>
  Model(std::shared_ptr<M> module) : module_(module), forward_(forward_of<M>()) {}  // NOLINT

  template <ModuleClass M>
  Model(const torch::nn::ModuleHolder<M>& holder) : Model(holder.ptr()) {}  // NOLINT

  template <ModuleMaker Make>
  Model(Make make) : Model(make()) {  // NOLINT
    make_ = [make] { return Model(make()).module_; };
  }

  torch::nn::Module& module() const { return *module_; }
  const std::shared_ptr<torch::nn::Module>& ptr() const { return module_; }
  torch::Tensor forward(const torch::Tensor& input) const;

  // Another module of the same shape on `device`. Throws InvalidInput, which says what to do, when
  // the module cannot be copied and no function was given.
  Model replicate(torch::Device device) const;

 private:
  template <typename M>
  static Forward forward_of() {
    if constexpr (HasForward<M>)
      return [](torch::nn::Module& module, const torch::Tensor& input) -> torch::Tensor {
        return static_cast<M&>(module).forward(input);
      };
    else
      return {};
  }

  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;  // or nothing
  std::function<std::shared_ptr<torch::nn::Module>()> make_;
};

}  // namespace cohort::train
