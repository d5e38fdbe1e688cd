#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cohort/capi/cohort_c.h"
#include "cohort/capi/tensorflow/tensorflow_c.h"

namespace cohort::tensorflow {

// What one operation of a graph does: its attributes.
struct Kernel {
  cohort_kind kind;
  std::string name;
  int32_t op = 0, root = 0, set = 0;
  double prescale = 1, postscale = 1;
  bool blocking = false;  // of an eager call: the calling thread does the work
};

// One execution of an operation: its inputs become a request, and the request's results its outputs.
// Made with new; deletes itself when the operation is over. Between start() and that it is used by one thread at
// a time: the one that submits until cohort_submit returns, then the one that calls `done`.
class Execution {
 public:
  Execution(const Kernel& kernel, Context* context) : kernel_(kernel), context_(context) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // On this thread, to the end.
  void run();
  // Returns at once; `done` is called when the outputs are there or the context has failed, on any thread.
  void start(std::function<void()> done);

 private:
  ~Execution();
  bool prepare(cohort_request& request);
  bool prepare_tensor(int index, int output);
  bool read_splits();
  void complete(cohort_status status, cohort_error* error);
  bool set_extra_output();
  void fail(Code code, const std::string& message);
  void submitted_or_over();
  void finish();
  void* allocate(int32_t index, int32_t ndim, const int64_t* shape);

  const Kernel& kernel_;
  Context* context_;
  std::function<void()> done_;
  std::vector<Tensor*> held_;  // keeps inputs and outputs alive
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<cohort_tensor> tensors_;
  std::vector<int64_t> splits_;
  cohort_call* call_ = nullptr;
  std::atomic<int> outstanding_ = 2;  // cohort_submit to return, `done` to be called
};

}  // namespace cohort::tensorflow
