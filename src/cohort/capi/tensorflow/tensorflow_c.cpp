#include "cohort/capi/tensorflow/tensorflow_c.h"

#include <dlfcn.h>

namespace cohort::tensorflow {

namespace {

struct Found {
  TensorflowC functions = {};
  const char* missing = nullptr;
};

template <typename Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

Found find_all() {
  Found found;
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    found.missing = "libtensorflow_framework.so.2";
    return found;
  }
  TensorflowC& f = found.functions;
#define COHORT_REQUIRED(NAME)            \
  look_up(library, "TF_" #NAME, f.NAME); \
  if (f.NAME == nullptr) {               \
    found.missing = "TF_" #NAME;         \
    return found;                        \
  }
  COHORT_REQUIRED(NewStatus)
  COHORT_REQUIRED(DeleteStatus)
  COHORT_REQUIRED(SetStatus)
  COHORT_REQUIRED(GetCode)
  COHORT_REQUIRED(Message)
  COHORT_REQUIRED(DeleteTensor)
  COHORT_REQUIRED(TensorType)
  COHORT_REQUIRED(NumDims)
  COHORT_REQUIRED(Dim)
  COHORT_REQUIRED(TensorData)
  COHORT_REQUIRED(DataTypeSize)
  COHORT_REQUIRED(NewOpDefinitionBuilder)
  COHORT_REQUIRED(OpDefinitionBuilderAddInput)
  COHORT_REQUIRED(OpDefinitionBuilderAddOutput)
  COHORT_REQUIRED(OpDefinitionBuilderAddAttr)
  COHORT_REQUIRED(OpDefinitionBuilderSetIsStateful)
  COHORT_REQUIRED(OpDefinitionBuilderSetShapeInferenceFunction)
  COHORT_REQUIRED(RegisterOpDefinition)
  COHORT_REQUIRED(ShapeInferenceContextNumInputs)
  COHORT_REQUIRED(NewShapeHandle)
  COHORT_REQUIRED(DeleteShapeHandle)
  COHORT_REQUIRED(ShapeInferenceContextGetInput)
  COHORT_REQUIRED(ShapeInferenceContextSetOutput)
  COHORT_REQUIRED(ShapeInferenceContextScalar)
  COHORT_REQUIRED(ShapeInferenceContextSetUnknownShape)
  COHORT_REQUIRED(NewKernelBuilder)
  COHORT_REQUIRED(RegisterKernelBuilder)
  COHORT_REQUIRED(OpKernelConstruction_GetAttrSize)
  COHORT_REQUIRED(OpKernelConstruction_GetAttrString)
  COHORT_REQUIRED(OpKernelConstruction_GetAttrInt64)
  COHORT_REQUIRED(OpKernelConstruction_Failure)
  COHORT_REQUIRED(NumInputs)
  COHORT_REQUIRED(GetInput)
  COHORT_REQUIRED(AllocateOutput)
  COHORT_REQUIRED(ForwardInputOrAllocateOutput)
  COHORT_REQUIRED(OpKernelContext_Failure)
#undef COHORT_REQUIRED
  look_up(library, "TF_NewAsyncKernelBuilder", f.NewAsyncKernelBuilder);
  look_up(library, "TF_RunAsyncOpKernelDoneCallback", f.RunAsyncOpKernelDoneCallback);
  return found;
}

}  // namespace

const TensorflowC* tensorflow_c(const char** missing) {
  static const Found found = find_all();
  if (missing != nullptr) *missing = found.missing;
  return found.missing == nullptr ? &found.functions : nullptr;
}

}  // namespace cohort::tensorflow
