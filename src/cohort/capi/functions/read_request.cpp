#include "cohort/capi/functions/read_request.h"

#include "cohort/base/error.h"
#include "cohort/capi/negotiation/element_type.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::capi {

namespace {

[[noreturn]] void reject(const Signature& signature, const std::string& why,
                         const std::string& advice) {
  throw InvalidInput(fmt::format("{} '{}': {}", to_string(signature.kind), signature.name, why),
                     {.advice = advice});
}

bool writes_out(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::shard_sum;
}

TensorType read_type(const Signature& signature, const cohort_tensor& tensor) {
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr))
    reject(signature, fmt::format("a tensor has ndim {} and no shape", tensor.ndim),
           "Give one number for each dimension.");
  if (!is_element_type(tensor.dtype))
    reject(signature, fmt::format("there is no element type number {}", tensor.dtype),
           "Use a value of cohort_dtype.");
  return {tensor.dtype, {tensor.shape, tensor.shape + tensor.ndim}};
}

void check_memory(const Signature& signature, const cohort_tensor& tensor, std::size_t bytes,
                  int rank) {
  if (bytes == 0) return;
  const bool reads = signature.kind == Kind::broadcast ? signature.root == rank
                                                       : signature.kind != Kind::shard_sum;
  if (reads && tensor.in == nullptr)
    reject(signature, "a tensor's 'in' is NULL", "Give memory for every element.");
  if (writes_out(signature.kind) && tensor.out == nullptr)
    reject(signature, "a tensor's 'out' is NULL", "Give memory for every element.");
}

}  // namespace

RequestRef read_request(const cohort_request& asked, int rank, int size) {
  if (asked.kind < COHORT_ALLREDUCE || asked.kind > COHORT_SHARD_SUM)
    throw InvalidInput(fmt::format("there is no kind of request number {}", asked.kind),
                       {.advice = "Use a value of cohort_kind."});
  if (asked.name == nullptr)
    throw InvalidInput("a request has no name", {.advice = "Give every request a name."});
  if (asked.tensor_count < 0 || (asked.tensor_count > 0 && asked.tensors == nullptr) ||
      asked.split_count < 0 || (asked.split_count > 0 && asked.splits == nullptr))
    throw InvalidInput(fmt::format("request '{}': tensors or splits are missing", asked.name),
                       {.advice = "Give as many as tensor_count and split_count say."});
  auto request = std::make_shared<Request>();
  auto signature = std::make_shared<Signature>();
  signature->kind = static_cast<Kind>(asked.kind);
  signature->name = asked.name;
  if (signature->kind == Kind::all_reduce || signature->kind == Kind::reduce_scatter) {
    signature->op = asked.op;
    signature->prescale = asked.prescale;
  }
  if (signature->kind == Kind::all_reduce || signature->kind == Kind::reduce_scatter ||
      signature->kind == Kind::shard_sum)
    signature->postscale = asked.postscale;
  if (signature->kind == Kind::broadcast) signature->root = asked.root;
  for (std::int32_t i = 0; i < asked.tensor_count; ++i) {
    const cohort_tensor& tensor = asked.tensors[i];
    signature->tensors.push_back(read_type(*signature, tensor));
    check_memory(*signature, tensor, signature->tensors.back().bytes(), rank);
    request->memory.push_back(
        {static_cast<const std::byte*>(tensor.in), static_cast<std::byte*>(tensor.out)});
  }
  if (signature->kind == Kind::all_to_all)
    signature->splits.assign(asked.splits, asked.splits + asked.split_count);
  if (signature->kind == Kind::shard_sum) {
    signature->shards = asked.shards;
    const std::size_t nodes = shard_nodes(rank, size, asked.shards).size();
    if (asked.partials == nullptr)
      reject(*signature, "'partials' is NULL", "Give the memory of each of this rank's nodes.");
    const bool has_elements = signature->tensors.size() == 1 && signature->tensors[0].bytes() > 0;
    for (std::size_t i = 0; i < nodes; ++i) {
      if (has_elements && asked.partials[i] == nullptr)
        reject(*signature, fmt::format("partials[{}] is NULL", i),
               fmt::format("Give the memory of each of this rank's {} nodes.", nodes));
      request->partials.push_back(static_cast<std::byte*>(const_cast<void*>(asked.partials[i])));
    }
  }
  request->signature = std::move(signature);
  request->allocate = asked.allocate;
  request->done = asked.done;
  request->user = asked.user;
  return request;
}

std::vector<collective::Subtree> shard_nodes(int rank, int size, int shards) {
  if (shards > kMaxShards)
    throw InvalidInput(fmt::format("{} shards", shards),
                       {.advice = fmt::format("Give at most {}.", kMaxShards)});
  return collective::ShardPlan(shards, collective::shards_of(rank, size, shards)).nodes();
}

void add_shards(std::int32_t dtype, const void* a, const void* b, void* out, std::int64_t count) {
  if (dtype != COHORT_F32 && dtype != COHORT_F64)
    throw InvalidInput(
        fmt::format("shards of element type {} are not added", name_of_element(dtype)),
        {.advice = "Add in the accumulation type: f32, also for f16 and bf16, or f64."});
  if (count < 0) throw InvalidInput(fmt::format("count is {}", count));
  const collective::TreeReducer reducer(
      {.dtype = *reducible(dtype), .op = collective::ReduceOp::sum, .leaves = 2});
  const std::byte* const inputs[] = {static_cast<const std::byte*>(a),
                                     static_cast<const std::byte*>(b)};
  std::byte* const outputs[] = {static_cast<std::byte*>(out)};
  reducer.run(inputs, outputs, static_cast<std::size_t>(count));
}

}  // namespace cohort::capi
