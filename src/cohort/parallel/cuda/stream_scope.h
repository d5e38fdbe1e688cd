#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

namespace cohort::parallel {

// The stream of the thread on `device`.
c10::Stream thread_stream(torch::Device device);

// `later` goes on only when it has come to what `earlier` holds now. The host waits for nothing. On
// the CPU, whose work is done when a call returns, there is nothing to order.
void order_streams(const c10::Stream& earlier, const c10::Stream& later);

// While it lives, what this thread puts on the stream's device goes to that stream: behind all that
// the thread's stream held before, and before all that is put there afterwards.
//
// Memory that LibTorch took on one stream and that another uses last must stay until both are past
// it: the same stream serves one replica for the life of its tensors.
//
// Threads: made and destroyed on one thread; scopes nest.
class StreamScope {
 public:
  explicit StreamScope(const c10::Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  c10::Stream own_;
  c10::StreamGuard guard_;
};

}  // namespace cohort::parallel
