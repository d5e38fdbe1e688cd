#pragma once

#include <cstddef>
#include <cstdint>

// The part of TensorFlow's C interface that the operations use, found at load time in the TensorFlow
// that the process has loaded. Nothing of TensorFlow is needed to build, so one library serves every
// version from 2.12 on; the interface is stable by its contract, except for what says otherwise.
namespace cohort::tensorflow {

struct Status;
struct Tensor;
struct OpBuilder;
struct ShapeContext;
struct ShapeHandle;
struct KernelBuilder;
struct Construction;
struct Context;
struct Done;

enum Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kFailedPrecondition = 9,
};

enum DataType : int {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
};

using ComputeFunction = void (*)(void* kernel, Context*);
using ComputeAsyncFunction = void (*)(void* kernel, Context*, Done*);

// Members are named as the functions without "TF_".
struct TensorflowC {
  Status* (*NewStatus)();
  void (*DeleteStatus)(Status*);
  void (*SetStatus)(Status*, Code, const char*);
  Code (*GetCode)(const Status*);
  const char* (*Message)(const Status*);

  void (*DeleteTensor)(Tensor*);
  DataType (*TensorType)(const Tensor*);
  int (*NumDims)(const Tensor*);
  int64_t (*Dim)(const Tensor*, int);
  void* (*TensorData)(const Tensor*);
  size_t (*DataTypeSize)(DataType);

  OpBuilder* (*NewOpDefinitionBuilder)(const char*);
  void (*OpDefinitionBuilderAddInput)(OpBuilder*, const char*);
  void (*OpDefinitionBuilderAddOutput)(OpBuilder*, const char*);
  void (*OpDefinitionBuilderAddAttr)(OpBuilder*, const char*);
  void (*OpDefinitionBuilderSetIsStateful)(OpBuilder*, bool);
  void (*OpDefinitionBuilderSetShapeInferenceFunction)(OpBuilder*,
                                                       void (*)(ShapeContext*, Status*));
  void (*RegisterOpDefinition)(OpBuilder*, Status*);
  int64_t (*ShapeInferenceContextNumInputs)(ShapeContext*);
  ShapeHandle* (*NewShapeHandle)();
  void (*DeleteShapeHandle)(ShapeHandle*);
  void (*ShapeInferenceContextGetInput)(ShapeContext*, int, ShapeHandle*, Status*);
  void (*ShapeInferenceContextSetOutput)(ShapeContext*, int, ShapeHandle*, Status*);
  ShapeHandle* (*ShapeInferenceContextScalar)(ShapeContext*);
  void (*ShapeInferenceContextSetUnknownShape)(ShapeContext*, Status*);

  KernelBuilder* (*NewKernelBuilder)(const char* op, const char* device,
                                     void* (*create)(Construction*), ComputeFunction,
                                     void (*destroy)(void*));
  void (*RegisterKernelBuilder)(const char* name, KernelBuilder*, Status*);
  void (*OpKernelConstruction_GetAttrSize)(Construction*, const char*, int32_t* list,
                                           int32_t* total, Status*);
  void (*OpKernelConstruction_GetAttrString)(Construction*, const char*, char*, size_t, Status*);
  void (*OpKernelConstruction_GetAttrInt64)(Construction*, const char*, int64_t*, Status*);
  void (*OpKernelConstruction_Failure)(Construction*, Status*);
  int (*NumInputs)(Context*);
  void (*GetInput)(Context*, int, Tensor**, Status*);
  Tensor* (*AllocateOutput)(Context*, int, DataType, const int64_t*, int, size_t, Status*);
  Tensor* (*ForwardInputOrAllocateOutput)(Context*, const int*, int, int, const int64_t*, int, int*,
                                          Status*);
  void (*OpKernelContext_Failure)(Context*, Status*);

  // Not in every version (2.12 has none): null then.
  KernelBuilder* (*NewAsyncKernelBuilder)(const char* op, const char* device,
                                          void* (*create)(Construction*), ComputeAsyncFunction,
                                          void (*destroy)(void*));
  void (*RunAsyncOpKernelDoneCallback)(Done*);
};

// Null when the process has no TensorFlow, or one that lacks a function that is required; `missing` says
// which.
const TensorflowC* tensorflow_c(const char** missing = nullptr);

// A TF_Status for a scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(tensorflow_c()->NewStatus()) {}
  ScopedStatus(Code code, const char* message) : ScopedStatus() {
    tensorflow_c()->SetStatus(status_, code, message);
  }
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;
  ~ScopedStatus() { tensorflow_c()->DeleteStatus(status_); }

  Status* get() const { return status_; }
  bool ok() const { return tensorflow_c()->GetCode(status_) == kOk; }

 private:
  Status* status_;
};

}  // namespace cohort::tensorflow
