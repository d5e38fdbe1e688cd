#include "cohort/parallel/cuda/wait_for_device.h"

#include <chrono>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/parallel/cuda/stream_scope.h"

namespace cohort::parallel {

namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};

}  // namespace

void wait_for_event(const c10::Event& event, collective::Group* group, Deadline deadline) {
  if (group == nullptr || group->device() == nullptr) {
    if (!event.query()) event.synchronize();
    return;
  }
  collective::DeviceGroup& others = *group->device();
  while (!event.query()) {
    others.check();
    if (deadline.expired()) {
      const std::string reason = "the GPU did not come to an end with what it does with others";
      group->abort(fmt::format("rank {}: {}", group->rank(), reason));
      throw TimeoutError(reason, {.advice = "See whether every replica still trains."});
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  others.check();  // an abort lets the stream go on, with values that are not complete
}

void wait_for_device(torch::Device device, collective::Group* group, Deadline deadline) {
  if (device.is_cpu()) return;
  c10::Event event(device.type());
  event.record(thread_stream(device));
  wait_for_event(event, group, deadline);
}

}  // namespace cohort::parallel
