#include "cohort/capi/tensorflow/request.h"

#include "cohort/capi/tensorflow/binding.h"

namespace cohort::tensorflow {

namespace {

char nothing;  // where tensors without elements are

int32_t cohort_type(DataType type) {
  switch (type) {
    case kFloat:
      return COHORT_F32;
    case kDouble:
      return COHORT_F64;
    case kInt32:
      return COHORT_I32;
    case kUint8:
      return COHORT_U8;
    case kInt16:
      return COHORT_I16;
    case kInt8:
      return COHORT_I8;
    case kComplex64:
      return COHORT_C64;
    case kInt64:
      return COHORT_I64;
    case kBool:
      return COHORT_BOOL;
    case kBfloat16:
      return COHORT_BF16;
    case kUint16:
      return COHORT_U16;
    case kComplex128:
      return COHORT_C128;
    case kHalf:
      return COHORT_F16;
    case kUint32:
      return COHORT_U32;
    case kUint64:
      return COHORT_U64;
  }
  return -1;
}

DataType tensorflow_type(int32_t dtype) {
  for (int type = kFloat; type <= kUint64; ++type) {
    if (cohort_type(static_cast<DataType>(type)) == dtype) return static_cast<DataType>(type);
  }
  return kUint8;
}

// As Horovod's operations fail: scripts, and its elastic loop, tell the causes apart by these.
Code tensorflow_code(cohort_status status) {
  switch (status) {
    case COHORT_INVALID:
      return kInvalidArgument;
    case COHORT_MISMATCH:
      return kFailedPrecondition;
    case COHORT_INTERRUPTED:
    case COHORT_DISMISSED:
      return kCancelled;
    default:
      return kUnknown;
  }
}

bool needs_output(cohort_kind kind) { return kind == COHORT_ALLREDUCE || kind == COHORT_BROADCAST; }

void* data_of(const Tensor* tensor) {
  void* data = tensorflow_c()->TensorData(tensor);
  return data != nullptr ? data : &nothing;
}

}  // namespace

Execution::~Execution() {
  for (Tensor* tensor : held_) tensorflow_c()->DeleteTensor(tensor);
  if (call_ != nullptr) cohort_c().call_free(call_);
}

void Execution::fail(Code code, const std::string& message) {
  const ScopedStatus status(code, message.c_str());
  tensorflow_c()->OpKernelContext_Failure(context_, status.get());
}

void Execution::finish() {
  const std::function<void()> done = std::move(done_);
  delete this;
  if (done) done();
}

// Input `index`, and where the kind requires it output `output`: its own memory where the operation is its last user.
bool Execution::prepare_tensor(int index, int output) {
  const TensorflowC& tf = *tensorflow_c();
  const ScopedStatus status;
  Tensor* input = nullptr;
  tf.GetInput(context_, index, &input, status.get());
  if (!status.ok()) {
    tf.OpKernelContext_Failure(context_, status.get());
    return false;
  }
  const int32_t dtype = cohort_type(tf.TensorType(input));
  std::vector<int64_t> shape(static_cast<size_t>(tf.NumDims(input)));
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = tf.Dim(input, static_cast<int>(i));
  if (dtype < 0) {
    held_.push_back(input);
    fail(kInvalidArgument, kernel_.name + ": tensors of TensorFlow's type " +
                               std::to_string(static_cast<int>(tf.TensorType(input))) +
                               " cannot be exchanged; cast to a number type or bool first.");
    return false;
  }
  void* out = nullptr;
  if (needs_output(kernel_.kind)) {
    // The input must not be held here: its memory is reused only when the operation is its last user.
    const void* in = tf.TensorData(input);
    tf.DeleteTensor(input);
    input = nullptr;
    int forwarded = -1;
    Tensor* result =
        tf.ForwardInputOrAllocateOutput(context_, &index, 1, output, shape.data(),
                                        static_cast<int>(shape.size()), &forwarded, status.get());
    if (!status.ok()) {
      tf.OpKernelContext_Failure(context_, status.get());
      return false;
    }
    held_.push_back(result);
    out = data_of(result);
    tensors_.push_back({in != nullptr ? in : &nothing, out, dtype, 0, nullptr});
  } else {
    held_.push_back(input);
    tensors_.push_back({data_of(input), nullptr, dtype, 0, nullptr});
  }
  shapes_.push_back(std::move(shape));
  return true;
}

bool Execution::read_splits() {
  const TensorflowC& tf = *tensorflow_c();
  const ScopedStatus status;
  Tensor* splits = nullptr;
  tf.GetInput(context_, 1, &splits, status.get());
  if (!status.ok()) {
    tf.OpKernelContext_Failure(context_, status.get());
    return false;
  }
  held_.push_back(splits);
  const int64_t count = tf.NumDims(splits) == 1 ? tf.Dim(splits, 0) : 0;
  const auto* values = static_cast<const int32_t*>(data_of(splits));
  splits_.assign(values, values + count);
  return true;
}

bool Execution::prepare(cohort_request& request) {
  const TensorflowC& tf = *tensorflow_c();
  if (current_world() == nullptr) {
    fail(kFailedPrecondition, kernel_.name + ": init() has not been called, or shutdown() has.");
    return false;
  }
  const bool all_to_all = kernel_.kind == COHORT_ALLTOALL;
  const int inputs = all_to_all ? 1 : tf.NumInputs(context_);
  for (int i = 0; i < inputs; ++i) {
    if (!prepare_tensor(i, i)) return false;
  }
  if (all_to_all && !read_splits()) return false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].ndim = static_cast<int32_t>(shapes_[i].size());
    tensors_[i].shape = shapes_[i].data();
  }
  request.struct_size = sizeof request;
  request.kind = kernel_.kind;
  request.set = kernel_.set;
  request.name = kernel_.name.c_str();
  request.op = kernel_.op;
  request.root = kernel_.root;
  request.prescale = kernel_.prescale;
  request.postscale = kernel_.postscale;
  request.tensors = tensors_.data();
  request.tensor_count = static_cast<int32_t>(tensors_.size());
  request.splits = splits_.data();
  request.split_count = static_cast<int32_t>(splits_.size());
  request.allocate = [](void* user, int32_t index, int32_t ndim, const int64_t* shape) {
    return static_cast<Execution*>(user)->allocate(index, ndim, shape);
  };
  request.user = this;
  return true;
}

void* Execution::allocate(int32_t index, int32_t ndim, const int64_t* shape) {
  const TensorflowC& tf = *tensorflow_c();
  const ScopedStatus status;
  const DataType type = tensorflow_type(tensors_[static_cast<size_t>(index)].dtype);
  size_t bytes = tf.DataTypeSize(type);
  for (int32_t i = 0; i < ndim; ++i) bytes *= static_cast<size_t>(shape[i]);
  Tensor* result = tf.AllocateOutput(context_, index, type, shape, ndim, bytes, status.get());
  if (!status.ok()) return nullptr;
  held_.push_back(result);
  return data_of(result);
}

// What else than tensors of the request the operation gives: received splits, the last rank that joined.
bool Execution::set_extra_output() {
  const TensorflowC& tf = *tensorflow_c();
  const ScopedStatus status;
  if (kernel_.kind == COHORT_ALLTOALL) {
    const int64_t* received = nullptr;
    int32_t count = 0;
    if (cohort_c().call_received_splits(call_, &received, &count, nullptr) != COHORT_OK) {
      fail(kUnknown, kernel_.name + ": no received splits.");
      return false;
    }
    const int64_t shape[] = {count};
    Tensor* result = tf.AllocateOutput(context_, 1, kInt32, shape, 1,
                                       sizeof(int32_t) * static_cast<size_t>(count), status.get());
    if (!status.ok()) return false;
    held_.push_back(result);
    auto* out = static_cast<int32_t*>(data_of(result));
    for (int32_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(received[i]);
  } else if (kernel_.kind == COHORT_JOIN) {
    Tensor* result =
        tf.AllocateOutput(context_, 0, kInt32, nullptr, 0, sizeof(int32_t), status.get());
    if (!status.ok()) return false;
    held_.push_back(result);
    *static_cast<int32_t*>(data_of(result)) = static_cast<int32_t>(cohort_c().call_value(call_));
  }
  return true;
}

void Execution::complete(cohort_status status, cohort_error* error) {
  if (status != COHORT_OK) {
    // cohort.tensorflow.util knows failures of these operations by how they begin.
    const std::string message = error != nullptr ? cohort_c().error_message(error) : "failed";
    fail(tensorflow_code(status), "Cohort: " + message);
    cohort_c().error_free(error);
    return;
  }
  set_extra_output();
}

void Execution::run() {
  cohort_request request = {};
  if (prepare(request)) {
    cohort_error* error = nullptr;
    const cohort_status status = cohort_c().run(current_world(), &request, &call_, &error);
    complete(status, error);
  }
  finish();
}

void Execution::start(std::function<void()> done) {
  done_ = std::move(done);
  if (kernel_.blocking) {
    run();
    return;
  }
  cohort_request request = {};
  if (!prepare(request)) {
    finish();
    return;
  }
  request.done = [](void* user) { static_cast<Execution*>(user)->submitted_or_over(); };
  cohort_error* error = nullptr;
  const cohort_status status = cohort_c().submit(current_world(), &request, &call_, &error);
  if (status != COHORT_OK) {  // `done` is not called
    complete(status, error);
    finish();
    return;
  }
  submitted_or_over();
}

// The second of two: cohort_submit has returned, which sets call_, and the request is over.
void Execution::submitted_or_over() {
  if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  cohort_error* error = nullptr;
  const cohort_status status = cohort_c().call_wait(call_, 0, &error);
  complete(status, error);
  finish();
}

}  // namespace cohort::tensorflow
