// Registers the operations CohortAllreduce, ... and their kernels with TensorFlow while it loads this library
// (tf.load_op_library). Operations take lists, so that a grouped call is one request; they are stateful, so that no
// optimization folds or merges them.
#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "cohort/capi/tensorflow/binding.h"
#include "cohort/capi/tensorflow/request.h"
#include "cohort/capi/tensorflow/tensorflow_c.h"

namespace cohort::tensorflow {

namespace {

// ---- Shapes known before an operation runs. Where the first dimension is not, Python sets the others.

void same_shapes(ShapeContext* context, Status* status) {
  const TensorflowC& tf = *tensorflow_c();
  const auto inputs = static_cast<int>(tf.ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < inputs; ++i) {
    ShapeHandle* shape = tf.NewShapeHandle();
    tf.ShapeInferenceContextGetInput(context, i, shape, status);
    if (tf.GetCode(status) == kOk) tf.ShapeInferenceContextSetOutput(context, i, shape, status);
    tf.DeleteShapeHandle(shape);
    if (tf.GetCode(status) != kOk) return;
  }
}

void scalar_shape(ShapeContext* context, Status* status) {
  const TensorflowC& tf = *tensorflow_c();
  ShapeHandle* shape = tf.ShapeInferenceContextScalar(context);
  tf.ShapeInferenceContextSetOutput(context, 0, shape, status);
  tf.DeleteShapeHandle(shape);
}

void unknown_shapes(ShapeContext* context, Status* status) {
  tensorflow_c()->ShapeInferenceContextSetUnknownShape(context, status);
}

// ---- Attributes

std::string read_string(Construction* construction, const char* name, Status* status) {
  const TensorflowC& tf = *tensorflow_c();
  int32_t list = 0, total = 0;
  tf.OpKernelConstruction_GetAttrSize(construction, name, &list, &total, status);
  if (tf.GetCode(status) != kOk || total <= 0) return "";
  std::string value(static_cast<size_t>(total), '\0');
  tf.OpKernelConstruction_GetAttrString(construction, name, value.data(), value.size(), status);
  return value;
}

int64_t read_int(Construction* construction, const char* name, Status* status) {
  int64_t value = 0;
  if (tensorflow_c()->GetCode(status) == kOk) {
    tensorflow_c()->OpKernelConstruction_GetAttrInt64(construction, name, &value, status);
  }
  return value;
}

// ---- Collectives

template <cohort_kind kKind>
void* create_kernel(Construction* construction) {
  auto kernel = std::make_unique<Kernel>();
  const ScopedStatus scoped;
  Status* status = scoped.get();
  const auto read = [&](const char* name) { return read_int(construction, name, status); };
  kernel->kind = kKind;
  kernel->name = read_string(construction, "request", status);
  kernel->set = static_cast<int32_t>(read("process_set_id"));
  kernel->blocking = read("blocking") != 0;
  if (kKind == COHORT_ALLREDUCE || kKind == COHORT_REDUCESCATTER) {
    kernel->op = static_cast<int32_t>(read("reduce_op"));
    kernel->prescale = std::bit_cast<double>(read("prescale_bits"));
    kernel->postscale = std::bit_cast<double>(read("postscale_bits"));
  }
  if (kKind == COHORT_BROADCAST) kernel->root = static_cast<int32_t>(read("root"));
  if (!scoped.ok()) {
    tensorflow_c()->OpKernelConstruction_Failure(construction, status);
    return nullptr;
  }
  return kernel.release();
}

void destroy_kernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

void compute(void* kernel, Context* context) {
  (new Execution(*static_cast<const Kernel*>(kernel), context))->run();
}

// TensorFlow passes the address of a std::function<void()>, which lives until this function returns and no longer:
// what is called later has to be a copy. (kernels.cc: TF_RunAsyncOpKernelDoneCallback calls it through the same cast.)
void compute_async(void* kernel, Context* context, Done* done) {
  std::function<void()> copy = *reinterpret_cast<const std::function<void()>*>(done);
  (new Execution(*static_cast<const Kernel*>(kernel), context))->start(std::move(copy));
}

// ---- Facts: numbers of the world, when the operation runs

enum Fact : int64_t { kSize = 0, kRank = 1, kLocalSize = 2, kLocalRank = 3, kIncluded = 4 };

struct FactKernel {
  int64_t fact;
  int32_t set;
};

void* create_fact(Construction* construction) {
  const ScopedStatus scoped;
  const int64_t fact = read_int(construction, "fact", scoped.get());
  const int64_t set = read_int(construction, "process_set_id", scoped.get());
  if (!scoped.ok()) {
    tensorflow_c()->OpKernelConstruction_Failure(construction, scoped.get());
    return nullptr;
  }
  return new FactKernel{fact, static_cast<int32_t>(set)};
}

void destroy_fact(void* kernel) { delete static_cast<FactKernel*>(kernel); }

// -1: not initialized; -2: no such process set (Horovod's numbers of process_set_included_op).
int32_t read_fact(const FactKernel& kernel) {
  cohort_world* world = current_world();
  if (world == nullptr) return -1;
  cohort_world_info info = {};
  info.struct_size = sizeof info;
  if (cohort_c().world_describe(world, &info, nullptr) != COHORT_OK) return -1;
  switch (kernel.fact) {
    case kRank:
      return info.rank;
    case kLocalSize:
      return info.local_size;
    case kLocalRank:
      return info.local_rank;
    default:
      break;
  }
  std::vector<int32_t> ranks(static_cast<size_t>(info.size));
  int32_t count = 0;
  if (cohort_c().set_ranks(world, kernel.set, ranks.data(), info.size, &count, nullptr) !=
      COHORT_OK) {
    return -2;
  }
  ranks.resize(static_cast<size_t>(count));
  if (kernel.fact == kSize) return count;
  return std::find(ranks.begin(), ranks.end(), info.rank) != ranks.end() ? 1 : 0;
}

void compute_fact(void* kernel, Context* context) {
  const TensorflowC& tf = *tensorflow_c();
  const auto& fact = *static_cast<const FactKernel*>(kernel);
  const int32_t value = read_fact(fact);
  if (value < 0 && fact.fact != kIncluded) {
    const ScopedStatus failed(kFailedPrecondition,
                              value == -1 ? "init() has not been called, or shutdown() has."
                                          : "There is no such process set.");
    tf.OpKernelContext_Failure(context, failed.get());
    return;
  }
  const ScopedStatus status;
  Tensor* result = tf.AllocateOutput(context, 0, kInt32, nullptr, 0, sizeof value, status.get());
  if (!status.ok()) {
    tf.OpKernelContext_Failure(context, status.get());
    return;
  }
  *static_cast<int32_t*>(tf.TensorData(result)) = value;
  tf.DeleteTensor(result);
}

// ---- Registration

struct Operation {
  const char* name;
  std::vector<const char*> inputs, outputs, attributes;
  void (*shapes)(ShapeContext*, Status*);
};

bool define(const Operation& operation) {
  const TensorflowC& tf = *tensorflow_c();
  OpBuilder* builder = tf.NewOpDefinitionBuilder(operation.name);
  for (const char* input : operation.inputs) tf.OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : operation.outputs) tf.OpDefinitionBuilderAddOutput(builder, output);
  for (const char* attribute : operation.attributes)
    tf.OpDefinitionBuilderAddAttr(builder, attribute);
  tf.OpDefinitionBuilderSetIsStateful(builder, true);
  tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, operation.shapes);
  const ScopedStatus status;
  tf.RegisterOpDefinition(builder, status.get());
  return status.ok();
}

template <cohort_kind kKind>
void define_collective(Operation operation) {
  const TensorflowC& tf = *tensorflow_c();
  for (const char* attribute :
       {"request: string", "process_set_id: int = 0", "blocking: int = 0"}) {
    operation.attributes.push_back(attribute);
  }
  if (kKind == COHORT_ALLREDUCE || kKind == COHORT_REDUCESCATTER) {
    for (const char* attribute : {"reduce_op: int", "prescale_bits: int", "postscale_bits: int"}) {
      operation.attributes.push_back(attribute);
    }
  }
  if (!define(operation)) return;
  KernelBuilder* kernel =
      tf.NewAsyncKernelBuilder != nullptr
          ? tf.NewAsyncKernelBuilder(operation.name, "CPU", create_kernel<kKind>, compute_async,
                                     destroy_kernel)
          : tf.NewKernelBuilder(operation.name, "CPU", create_kernel<kKind>, compute,
                                destroy_kernel);
  const ScopedStatus status;
  tf.RegisterKernelBuilder(operation.name, kernel, status.get());
}

void define_fact() {
  const TensorflowC& tf = *tensorflow_c();
  if (!define({"CohortFact",
               {},
               {"value: int32"},
               {"fact: int", "process_set_id: int = 0"},
               scalar_shape})) {
    return;
  }
  const ScopedStatus status;
  tf.RegisterKernelBuilder(
      "CohortFact",
      tf.NewKernelBuilder("CohortFact", "CPU", create_fact, compute_fact, destroy_fact),
      status.get());
}

// Runs while TensorFlow loads the library: it collects what is registered in that time.
const bool registered = [] {
  if (tensorflow_c() == nullptr) return false;  // cohort_tensorflow_missing() says why
  const std::vector<const char*> in = {"tensors: T"}, out = {"results: T"},
                                 types = {"T: list(type) >= 1"};
  define_collective<COHORT_ALLREDUCE>({"CohortAllreduce", in, out, types, same_shapes});
  define_collective<COHORT_ALLGATHER>({"CohortAllgather", in, out, types, unknown_shapes});
  define_collective<COHORT_REDUCESCATTER>({"CohortReducescatter", in, out, types, unknown_shapes});
  define_collective<COHORT_BROADCAST>(
      {"CohortBroadcast", in, out, {"T: list(type) >= 1", "root: int"}, same_shapes});
  define_collective<COHORT_ALLTOALL>({"CohortAlltoall",
                                      {"tensor: T", "splits: int32"},
                                      {"result: T", "received_splits: int32"},
                                      {"T: type"},
                                      unknown_shapes});
  define_collective<COHORT_JOIN>({"CohortJoin", {}, {"last: int32"}, {}, scalar_shape});
  define_fact();
  return true;
}();

}  // namespace

}  // namespace cohort::tensorflow
