#include "nccl_fixture.h"

#include <dlfcn.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "cohort/base/soon_test.h"
#include "cohort/collective/form.h"

namespace cohort::collective::nccl::testing {

const StandIn& StandIn::get() {
  static const StandIn only = [] {
    // By its path; the library under test then finds it by its name, as it finds LibTorch's.
    void* handle = dlopen(STAND_IN_NCCL, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    const auto take = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    };
    StandIn found{};
    ControlsFunction* controls = nullptr;
    take(controls, "stand_in_controls");
    take(found.set_version, "stand_in_set_version");
    take(found.make_stream, "stand_in_stream");
    take(found.synchronize, "stand_in_synchronize");
    take(found.free_stream, "stand_in_free_stream");
    take(found.fail, "stand_in_fail");
    found.controls = controls();
    return found;
  }();
  return only;
}

void run_groups(int size, const std::function<void(Group& group)>& body) {
  auto groups = make_inproc_groups(size, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (auto& element : groups)
    threads.emplace_back([&body, group = std::move(element)] {
      try {
        body(*group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << group->rank() << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

Participant on_gpu(int number) {
  Participant participant;
  participant.device[3] = static_cast<std::byte>(number + 1);
  return participant;
}

std::unique_ptr<DeviceGroup> form_one(Group& group, std::chrono::milliseconds timeout) {
  return form(group, on_gpu(group.rank()), soon(), timeout);
}

void NcclTest::SetUp() {
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  unsetenv("NCCL_COMM_BLOCKING");
  controls().version = 22809;
  controls().polls = 0;
  controls().never_ready = false;
  controls().launches_block = false;
  controls().failing_rank = -1;
  controls().no_id = false;
  controls().set_graphs_alive(false);
}

void NcclTest::TearDown() {
  EXPECT_EQ(controls().alive, 0) << "communicators that were not aborted";
}

void NcclTest::run(int size, const std::function<void(Group& group, DeviceGroup& nccl)>& body) {
  run_groups(size, [&](Group& group) {
    const auto nccl = form_one(group, std::chrono::seconds(20));
    body(group, *nccl);
    group.barrier();
  });
}

}  // namespace cohort::collective::nccl::testing
