#include "cohort/capi/negotiation/signature.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/capi/negotiation/element_type.h"

namespace cohort::capi {

std::string_view to_string(Kind kind) {
  constexpr std::string_view kNames[] = {"allreduce",
                                         "allgather",
                                         "broadcast",
                                         "alltoall",
                                         "reducescatter",
                                         "barrier",
                                         "join",
                                         "shard sum",
                                         "adding a process set",
                                         "removing a process set"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of_op(std::int32_t op) {
  constexpr std::string_view kNames[] = {"average", "sum", "adasum", "min", "max", "product"};
  if (op < 0 || static_cast<std::size_t>(op) >= std::size(kNames))
    throw InvalidInput(fmt::format("there is no reduction number {}", op),
                       {.advice = "Use a value of cohort_op."});
  return kNames[op];
}

std::size_t TensorType::elements() const {
  return std::accumulate(
      shape.begin(), shape.end(), std::size_t{1},
      [](std::size_t product, std::int64_t n) { return product * static_cast<std::size_t>(n); });
}
std::size_t TensorType::bytes() const { return elements() * bytes_of_element(dtype); }
std::size_t TensorType::row_bytes() const {
  std::size_t bytes = bytes_of_element(dtype);
  for (std::size_t i = 1; i < shape.size(); ++i) bytes *= static_cast<std::size_t>(shape[i]);
  return bytes;
}

namespace {

constexpr std::size_t kMostDescribed = 8;  // tensors, in an error

bool reduces(Kind kind) { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }

[[noreturn]] void refuse(const Signature& signature, const std::string& why,
                         const std::string& advice) {
  throw InvalidInput(fmt::format("{} '{}': {}", to_string(signature.kind), signature.name, why),
                     {.advice = advice});
}

void check_tensor(const Signature& signature, const TensorType& tensor, int size) {
  if (!is_element_type(tensor.dtype))
    refuse(signature, fmt::format("there is no element type number {}", tensor.dtype),
           "Use a value of cohort_dtype.");
  if (tensor.shape.size() > kMaxDimensions)
    refuse(signature, fmt::format("a tensor has {} dimensions", tensor.shape.size()),
           fmt::format("Give at most {}.", kMaxDimensions));
  std::int64_t elements = 1;
  for (const std::int64_t n : tensor.shape)
    if (n < 0 || (n > 0 && elements > (std::int64_t{1} << 56) / n))
      refuse(signature, fmt::format("the shape [{}] is not one", fmt::join(tensor.shape, ", ")),
             "Give dimensions that are not negative, and that memory can hold.");
    else if (n > 0)
      elements *= n;
  const auto reduced_as = reducible(tensor.dtype);
  const bool is_float = tensor.dtype == COHORT_F16 || tensor.dtype == COHORT_BF16 ||
                        tensor.dtype == COHORT_F32 || tensor.dtype == COHORT_F64;
  if (reduces(signature.kind)) {
    if (!reduced_as)
      refuse(signature, fmt::format("{} is not reduced", name_of_element(tensor.dtype)),
             "Convert it: u8, i8, i32, i64, f16, bf16, f32, f64 and bool are.");
    if (tensor.dtype == COHORT_BOOL && signature.op == COHORT_AVERAGE)
      refuse(signature, "booleans have no average", "Convert them to f32, or use sum (\"or\").");
    if (signature.op == COHORT_ADASUM && !is_float)
      refuse(signature, fmt::format("adasum of {}", name_of_element(tensor.dtype)),
             "Use f16, bf16, f32 or f64.");
  }
  if (signature.kind == Kind::shard_sum && !is_float)
    refuse(signature, fmt::format("shards of {} are not summed", name_of_element(tensor.dtype)),
           "Use f16, bf16, f32 or f64.");
  if (signature.kind == Kind::reduce_scatter && tensor.shape.empty())
    refuse(signature, "a scalar has no first dimension to cut", "Give it one dimension at least.");
  if (signature.kind != Kind::all_to_all) return;
  if (tensor.shape.empty())
    refuse(signature, "a scalar has no first dimension to split",
           "Give it one dimension at least.");
  if (signature.splits.empty() && tensor.rows() % size != 0)
    refuse(signature, fmt::format("{} rows do not split over {} ranks", tensor.rows(), size),
           "Give splits, or a first dimension that the number of ranks divides.");
  std::int64_t sum = 0;
  for (const std::int64_t split : signature.splits)  // none is negative
    sum = split > INT64_MAX - sum ? INT64_MAX : sum + split;
  if (!signature.splits.empty() && sum != tensor.rows())
    refuse(signature, fmt::format("the splits have {} rows, the tensor {}", sum, tensor.rows()),
           "Give splits whose sum is the first dimension.");
}

// The signature without what may differ between ranks.
Signature comparable(const Signature& signature) {
  Signature common = signature;
  if (signature.kind == Kind::all_gather || signature.kind == Kind::all_to_all) {
    common.splits.clear();
    for (TensorType& tensor : common.tensors)
      if (!tensor.shape.empty()) tensor.shape[0] = 0;
  }
  return common;
}

std::string what_differs(const Signature& a, const Signature& b) {
  std::vector<std::string> parts;
  if (a.kind != b.kind) return "the kinds";
  if (a.tensors.size() != b.tensors.size()) {
    parts.push_back("the numbers of tensors");
  } else {
    const auto differ = [&](auto member) {
      return !std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(),
                         [&](const auto& x, const auto& y) { return x.*member == y.*member; });
    };
    if (differ(&TensorType::dtype)) parts.push_back("the data types");
    if (differ(&TensorType::shape)) parts.push_back("the shapes");
  }
  if (a.op != b.op) parts.push_back("the operations");
  if (a.root != b.root) parts.push_back("the root ranks");
  if (a.prescale != b.prescale || a.postscale != b.postscale) parts.push_back("the scales");
  if (a.shards != b.shards) parts.push_back("the numbers of shards");
  if (a.ranks != b.ranks || a.set != b.set) parts.push_back("the process sets");
  return parts.empty() ? "the parts" : fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

std::string key_of(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::join:
      return "join";
    case Kind::barrier:
      return std::string("barrier:").append(name);
    case Kind::add_set:
    case Kind::remove_set:
      return std::string("set:").append(name);
    default:
      return std::string("tensor:").append(name);
  }
}

std::string describe(const Signature& signature) {
  std::string text(to_string(signature.kind));
  if (signature.kind == Kind::add_set)
    return text + fmt::format(" of ranks {}", fmt::join(signature.ranks, ", "));
  if (signature.kind == Kind::remove_set) return text + fmt::format(", number {}", signature.set);
  if (reduces(signature.kind)) text += fmt::format(" ({})", name_of_op(signature.op));
  std::vector<std::string> tensors;
  for (const TensorType& tensor : signature.tensors) {
    if (tensors.size() == kMostDescribed) {
      tensors.push_back(fmt::format("{} more", signature.tensors.size() - kMostDescribed));
      break;
    }
    tensors.push_back(
        fmt::format("{}[{}]", name_of_element(tensor.dtype), fmt::join(tensor.shape, ", ")));
  }
  if (!tensors.empty()) text += fmt::format(" of {}", fmt::join(tensors, ", "));
  if (signature.kind == Kind::broadcast) text += fmt::format(" from root rank {}", signature.root);
  if (signature.prescale != 1) text += fmt::format(", prescale {}", signature.prescale);
  if (signature.postscale != 1) text += fmt::format(", postscale {}", signature.postscale);
  if (!signature.splits.empty())
    text += fmt::format(", splits [{}]", fmt::join(signature.splits, ", "));
  if (signature.kind == Kind::shard_sum) text += fmt::format(", {} shards", signature.shards);
  return text;
}

void check_signature(const Signature& signature, int size) {
  if (signature.name.empty()) refuse(signature, "it has no name", "Give every request a name.");
  if (signature.name.size() > kMaxName)
    refuse(signature, "its name is too long", "Give a name of at most 65536 bytes.");
  const bool has_no_tensor = signature.kind == Kind::barrier || signature.kind == Kind::join ||
                             signature.kind == Kind::add_set || signature.kind == Kind::remove_set;
  if (has_no_tensor != signature.tensors.empty())
    refuse(signature, fmt::format("it has {} tensors", signature.tensors.size()),
           has_no_tensor ? "Give none." : "Give one or more.");
  if (signature.tensors.size() > kMaxTensors)
    refuse(signature, fmt::format("it has {} tensors", signature.tensors.size()),
           fmt::format("Give at most {} in one request.", kMaxTensors));
  if (reduces(signature.kind)) name_of_op(signature.op);
  if (signature.kind == Kind::reduce_scatter && signature.op == COHORT_ADASUM)
    refuse(signature, "adasum does not go with reducescatter", "Use sum or average.");
  if (!std::isfinite(signature.prescale) || !std::isfinite(signature.postscale))
    refuse(signature,
           fmt::format("scales {} and {} are not both finite", signature.prescale,
                       signature.postscale),
           "Give finite scales.");
  if (signature.kind == Kind::broadcast && (signature.root < 0 || signature.root >= size))
    refuse(signature, fmt::format("root rank {} is not in a set of {} ranks", signature.root, size),
           fmt::format("Give a root from 0 to {}.", size - 1));
  if (!signature.splits.empty()) {
    if (signature.splits.size() != static_cast<std::size_t>(size))
      refuse(signature, fmt::format("{} splits for {} ranks", signature.splits.size(), size),
             "Give one for each rank of the process set.");
    if (*std::min_element(signature.splits.begin(), signature.splits.end()) < 0)
      refuse(signature, "a split is negative", "Give the number of rows to each rank.");
  }
  if (signature.kind == Kind::shard_sum) {
    if (signature.tensors.size() != 1)
      refuse(signature, fmt::format("it has {} tensors", signature.tensors.size()), "Give one.");
    if (signature.shards < size)
      refuse(signature, fmt::format("{} shards for {} ranks", signature.shards, size),
             "Give as many shards as ranks at least.");
    if (signature.shards > kMaxShards)
      refuse(signature, fmt::format("{} shards", signature.shards),
             fmt::format("Give at most {}.", kMaxShards));
  }
  for (const TensorType& tensor : signature.tensors) check_tensor(signature, tensor, size);
}

std::string find_mismatch(const std::vector<SignatureRef>& ranks) {
  const auto first =
      std::find_if(ranks.begin(), ranks.end(), [](const SignatureRef& s) { return s != nullptr; });
  if (first == ranks.end()) return {};
  const Signature expected = comparable(**first);
  const auto other = std::find_if(first, ranks.end(), [&](const SignatureRef& s) {
    return s && s != *first && comparable(*s) != expected;
  });
  if (other == ranks.end()) return {};
  std::vector<std::pair<std::string, std::vector<std::size_t>>> sides;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank]) continue;
    const std::string text = describe(*ranks[rank]);
    auto side = std::find_if(sides.begin(), sides.end(), [&](auto& s) { return s.first == text; });
    if (side == sides.end()) side = sides.insert(sides.end(), {text, {}});
    side->second.push_back(rank);
  }
  std::vector<std::string> lines;
  for (const auto& [text, who] : sides)
    lines.push_back(
        fmt::format("rank{} {}: {}", who.size() > 1 ? "s" : "", fmt::join(who, ", "), text));
  return fmt::format("{} of the ranks' requests '{}' differ: {}",
                     what_differs(expected, comparable(**other)), (*first)->name,
                     fmt::join(lines, "; "));
}

}  // namespace cohort::capi
