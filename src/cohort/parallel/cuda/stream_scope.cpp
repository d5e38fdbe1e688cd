#include "cohort/parallel/cuda/stream_scope.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace cohort::parallel {

c10::Stream thread_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void order_streams(const c10::Stream& earlier, const c10::Stream& later) {
  if (earlier == later || earlier.device_type() == torch::kCPU) return;
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

StreamScope::StreamScope(const c10::Stream& stream) : own_(stream), guard_(stream) {
  order_streams(guard_.original_stream(), own_);
}

StreamScope::~StreamScope() {
  try {
    order_streams(own_, guard_.original_stream());
  } catch (const c10::Error&) {
    // The device has failed: whatever is asked of it next says so again.
  }
}

}  // namespace cohort::parallel
