#include "ipc_fixture.h"

#include <thread>

#include "../spawn.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/collective/form.h"
#include "cohort/collective/ipc/endpoint.h"

namespace cohort::collective::testing {

Rank::Rank(Group& host, std::size_t slot_bytes)
    : gpu(host.rank()),
      streams{gpu.make_stream(), gpu.make_stream()},
      arithmetic(std::make_shared<HostArithmetic>(gpu)),
      group(ipc::form(host, arithmetic, soon(), {.slot_bytes = slot_bytes})) {}

void Rank::finish() {
  const auto patience = Deadline::after(std::chrono::seconds(kSanitized ? 240 : 60));
  for (const DeviceStream stream : streams)
    ASSERT_TRUE(gpu.wait(stream, patience)) << "the stream is stuck";
  group->check();
}

void Rank::run(std::vector<Step> steps, unsigned seed) {
  Script script(gpu, group->rank(), group->size(), std::move(steps), seed);
  script.put(*group, streams);
  finish();
  EXPECT_EQ(script.compare(), "");
}

void spawn(int size, const std::function<void(Group& host)>& body) {
  auto groups = make_inproc_groups(size);
  run_ranks(size, [&](int rank) {
    const std::unique_ptr<Group> host = std::move(groups[static_cast<std::size_t>(rank)]);
    body(*host);
  });
  std::thread([] {
    for (std::size_t device = 0; device < Gpu::count(); ++device) {
      CudaDriver::find()->use_device(static_cast<int>(device));
      ipc::Endpoint::release_retired();
    }
  }).join();
  EXPECT_EQ(Gpu::stand_in_mappings(), 0) << "memory of GPUs was not given back";
}

}  // namespace cohort::collective::testing
