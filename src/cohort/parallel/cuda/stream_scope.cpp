#include "cohort/parallel/cuda/stream_scope.h"

namespace cohort::parallel {

void order_streams(const c10::Stream& earlier, const c10::Stream& later) {
  if (earlier == later) return;
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
