#include "cohort/capi/tensorflow/binding.h"

#include <dlfcn.h>

#include "cohort/capi/tensorflow/tensorflow_c.h"

namespace cohort::tensorflow {

namespace {

CohortC functions = {};
std::atomic<cohort_world*> world = nullptr;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const CohortC& cohort_c() { return functions; }

cohort_world* current_world() { return world.load(std::memory_order_acquire); }

}  // namespace cohort::tensorflow

extern "C" {

// `library`: the handle of the loaded libcohort.so. 0: all functions were found in it. Once, before any world.
__attribute__((visibility("default"))) int32_t cohort_tensorflow_bind(void* library) {
  using namespace cohort::tensorflow;
  CohortC& f = functions;
  const bool all = find(library, "cohort_submit", f.submit) && find(library, "cohort_run", f.run) &&
                   find(library, "cohort_call_wait", f.call_wait) &&
                   find(library, "cohort_call_free", f.call_free) &&
                   find(library, "cohort_call_received_splits", f.call_received_splits) &&
                   find(library, "cohort_call_value", f.call_value) &&
                   find(library, "cohort_error_message", f.error_message) &&
                   find(library, "cohort_error_free", f.error_free) &&
                   find(library, "cohort_world_describe", f.world_describe) &&
                   find(library, "cohort_set_ranks", f.set_ranks);
  return all ? 0 : 1;
}

// NULL: there is none.
__attribute__((visibility("default"))) void cohort_tensorflow_set_world(cohort_world* world) {
  cohort::tensorflow::world.store(world, std::memory_order_release);
}

// Non-zero: operations wait without holding a thread of TensorFlow's (since the interface has asynchronous
// kernels). Zero: they block one each.
__attribute__((visibility("default"))) int32_t cohort_tensorflow_asynchronous(void) {
  const auto* tf = cohort::tensorflow::tensorflow_c();
  return tf != nullptr && tf->NewAsyncKernelBuilder != nullptr ? 1 : 0;
}

// The name of what TensorFlow lacks; NULL: nothing.
__attribute__((visibility("default"))) const char* cohort_tensorflow_missing(void) {
  const char* missing = nullptr;
  cohort::tensorflow::tensorflow_c(&missing);
  return missing;
}
}
