#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

// Tensor trees: types that are made of tensors, so that what is done to a batch (moved to a device,
// cut into parts) can be done to any of them. A tensor tree is
//   - a torch::Tensor;
//   - std::optional, pair, tuple, array, vector, or map of tensor trees;
//   - a struct that names its tensors: `auto tensors() { return std::tie(ids, mask, labels); }`;
//   - an aggregate (a struct without constructors) of up to 12 members, of which some are tensor
//     trees.
// Members that hold no tensors (numbers, text) are left as they are. The order of a struct's tensors
// is that of its members, of a map's that of its keys.
namespace cohort::train {

namespace tree_detail {

// Stands for a value of any type where an aggregate's members are counted; never made.
struct AnyMember {
  template <typename T>
  operator T() const;  // NOLINT
};

template <typename T, std::size_t... I>
consteval bool has_members(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMember{})...}; };
}

inline constexpr std::size_t kMostMembers = 12;

template <typename T, std::size_t N = kMostMembers>
consteval std::size_t count_members() {
  if constexpr (N == 0)
    return 0;
  else if constexpr (has_members<T>(std::make_index_sequence<N>()))
    return N;
  else
    return count_members<T, N - 1>();
}

// The members of an aggregate, as a tuple of references.
template <typename T>
auto members_of(T& value) {
  constexpr std::size_t n = count_members<std::remove_const_t<T>>();
  if constexpr (n == 1) {
    auto& [a] = value;
    return std::tie(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else {
    return std::tuple<>();
  }
}

template <typename T>
concept NamesTensors = requires(T& value) {
  value.tensors();
};
template <typename T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <typename T>
concept MapLike = requires {
  typename T::mapped_type;
};
template <typename T>
concept OptionalLike = std::same_as<T, std::optional<typename T::value_type>>;
template <typename T>
concept ListLike = std::ranges::range<T> && requires {
  typename T::allocator_type;
};

template <typename T>
consteval bool holds_tensors();

template <typename T>
struct AnyHolds : std::false_type {};
template <typename... T>
struct AnyHolds<std::tuple<T&...>>
    : std::bool_constant<(holds_tensors<std::remove_const_t<T>>() || ...)> {};

template <typename T, std::size_t... I>
consteval bool element_holds(std::index_sequence<I...>) {
  return (holds_tensors<std::tuple_element_t<I, T>>() || ...);
}

template <typename T>
consteval bool holds_tensors() {
  if constexpr (std::same_as<T, torch::Tensor>)
    return true;
  else if constexpr (!std::is_class_v<T>)
    return false;
  else if constexpr (OptionalLike<T>)
    return holds_tensors<typename T::value_type>();
  else if constexpr (TupleLike<T>)
    return element_holds<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (MapLike<T>)
    return holds_tensors<typename T::mapped_type>();
  else if constexpr (ListLike<T>)
    return holds_tensors<typename T::value_type>();
  else if constexpr (NamesTensors<T>)
    return true;
  else if constexpr (std::is_aggregate_v<T>)
    return AnyHolds<decltype(members_of(std::declval<T&>()))>::value;
  else
    return false;
}

// Whether all that a tree holds is tensors, how they are arranged included: visit_arrangement() says
// that. Types that name their tensors may hold anything besides.
template <typename T>
consteval bool holds_only_tensors();

template <typename T>
struct AllHoldOnly : std::false_type {};
template <typename... T>
struct AllHoldOnly<std::tuple<T&...>>
    : std::bool_constant<(holds_only_tensors<std::remove_const_t<T>>() && ...)> {};

template <typename T, std::size_t... I>
consteval bool elements_hold_only(std::index_sequence<I...>) {
  return (holds_only_tensors<std::tuple_element_t<I, T>>() && ...);
}

template <typename T>
concept NamesElements = std::integral<T> || std::convertible_to<T, std::string>;

template <typename T>
consteval bool holds_only_tensors() {
  if constexpr (std::same_as<T, torch::Tensor>)
    return true;
  else if constexpr (!holds_tensors<T>())
    return false;
  else if constexpr (OptionalLike<T>)
    return holds_only_tensors<typename T::value_type>();
  else if constexpr (TupleLike<T>)
    return elements_hold_only<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (MapLike<T>)
    return NamesElements<typename T::key_type> && holds_only_tensors<typename T::mapped_type>();
  else if constexpr (ListLike<T>)
    return holds_only_tensors<typename T::value_type>();
  else if constexpr (NamesTensors<T>)
    return false;
  else
    return AllHoldOnly<decltype(members_of(std::declval<T&>()))>::value;
}

}  // namespace tree_detail

template <typename T>
concept TensorTree = std::copy_constructible<T> && tree_detail::holds_tensors<T>();

// Calls f(torch::Tensor&) for every tensor of the tree that is defined, in the tree's order.
template <typename T, typename F>
void visit_tensors(T& tree, F& f) {
  using namespace tree_detail;  // NOLINT
  const auto visit_all = [&f](auto&... elements) { (visit_tensors(elements, f), ...); };
  if constexpr (std::same_as<T, torch::Tensor>) {
    if (tree.defined()) f(tree);
  } else if constexpr (!holds_tensors<T>()) {
    // left as it is
  } else if constexpr (OptionalLike<T>) {
    if (tree) visit_tensors(*tree, f);
  } else if constexpr (TupleLike<T>) {
    std::apply(visit_all, tree);
  } else if constexpr (MapLike<T>) {
    for (auto& [key, value] : tree) visit_tensors(value, f);
  } else if constexpr (ListLike<T>) {
    for (auto& element : tree) visit_tensors(element, f);
  } else if constexpr (NamesTensors<T>) {
    std::apply(visit_all, tree.tensors());
  } else {
    std::apply(visit_all, members_of(tree));
  }
}

// How a tree that holds only tensors arranges them: calls f(std::string) for each tensor's type, shape
// and strides, for what is not there, and for the sizes and keys of lists and maps. Trees for which
// it says the same differ in their tensors' values alone.
template <typename T, typename F>
requires(tree_detail::holds_only_tensors<T>()) void visit_arrangement(const T& tree, F& f) {
  using namespace tree_detail;  // NOLINT
  const auto visit_all = [&f](const auto&... elements) { (visit_arrangement(elements, f), ...); };
  if constexpr (std::same_as<T, torch::Tensor>) {
    f(tree.defined() ? c10::str(tree.scalar_type(), " ", tree.sizes(), " ", tree.strides())
                     : std::string("undefined"));
  } else if constexpr (OptionalLike<T>) {
    if (tree)
      visit_arrangement(*tree, f);
    else
      f("none");
  } else if constexpr (TupleLike<T>) {
    std::apply(visit_all, tree);
  } else if constexpr (MapLike<T>) {
    f(c10::str(tree.size(), " keys"));
    for (const auto& [key, value] : tree) {
      f(c10::str(key));
      visit_arrangement(value, f);
    }
  } else if constexpr (ListLike<T>) {
    f(c10::str(tree.size(), " elements"));
    for (const auto& element : tree) visit_arrangement(element, f);
  } else {
    std::apply(visit_all, members_of(tree));
  }
}

// A copy of the tree in which f(tensor) is in the place of every tensor.
template <TensorTree T, std::invocable<const torch::Tensor&> F>
T map_tensors(T tree, F f) {
  auto replace = [&f](torch::Tensor& tensor) { tensor = f(std::as_const(tensor)); };
  visit_tensors(tree, replace);
  return tree;
}

// Calls f(const torch::Tensor&) for every tensor. Copies the tree, whose tensors are shared.
template <TensorTree T, std::invocable<const torch::Tensor&> F>
void for_each_tensor(T tree, F f) {
  auto look = [&f](torch::Tensor& tensor) { f(std::as_const(tensor)); };
  visit_tensors(tree, look);
}

}  // namespace cohort::train
