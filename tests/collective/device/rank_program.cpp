// Ranks with a GPU as processes of their own, for ipc_process_test.
// usage: device_rank RANK SIZE STORE_HOST STORE_PORT ID MODE
//   script           calls of all kinds; prints "ok", or "wrong TEXT"
//   pair-script      the same, with two ranks, 2 RANK and 2 RANK + 1, as threads of this process
//   loop             all_reduces until check() throws; prints "error TEXT", then "ended" when the
//                    stream has gone on, and "gone" when the group is destroyed
//   ahead            as loop, but waits for nothing: the host is blocked when the stream is full
//   replays          as loop, but replays a CUDA graph, and destroys the group as soon as check() has
//                    thrown
//   watched          as loop, where a thread that learns of a death from the Group calls abort()
//   refused-CALL-R   forms a group while the driver refuses CALL to rank R; prints "error TEXT"
// Prints "ready" when the Group of the host's memory stands.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/collective/form.h"
#include "cohort/collective/ipc/ipc.h"
#include "cohort/transport/store_rendezvous.h"
#include "host_arithmetic.h"
#include "script.h"

namespace {

using namespace cohort;
using namespace cohort::collective;
using namespace cohort::collective::testing;

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

std::unique_ptr<Group> join(int rank, int size, char** argv) {
  auto store = cluster::StoreClient::connect({.address = {argv[3], std::atoi(argv[4])},
                                              .secret = {},
                                              .name = fmt::format("rank/{}", rank)},
                                             soon());
  auto rendezvous = std::make_shared<transport::StoreRendezvous>(*store, argv[5]);
  const Member self{.rank = rank, .size = size, .task = fmt::format("worker/{}", rank)};
  return form_group(self, rendezvous, {}, soon());
}

std::string run_script(Group& group) {
  const int ordinal = group.rank() % static_cast<int>(Gpu::count());
  Gpu gpu(ordinal);
  const std::vector<DeviceStream> streams{gpu.make_stream(), gpu.make_stream()};
  const auto arithmetic = std::make_shared<HostArithmetic>(gpu);
  const auto device = ipc::form(group, arithmetic, soon(), {.slot_bytes = 8192});
  const auto run = [&](std::vector<Step> steps, unsigned seed) -> std::string {
    Script script(gpu, group.rank(), group.size(), std::move(steps), seed);
    script.put(*device, streams);
    for (const DeviceStream stream : streams)
      if (!gpu.wait(stream, soon())) return "a stream is stuck";
    device->check();
    return script.compare();
  };
  for (const std::size_t count : {0u, 1u, 3u, 1000u})
    if (const auto wrong = run(every_call(group.size(), count), 1); !wrong.empty()) return wrong;
  for (const unsigned seed : {2u, 3u})
    if (const auto wrong = run(random_calls(group.size(), seed, 100, 9000, 2), seed);
        !wrong.empty())
      return wrong;
  // A graph, replayed behind other calls and behind itself.
  Script script(gpu, group.rank(), group.size(), random_calls(group.size(), 4, 20, 5000, 1), 4);
  gpu.begin_capture(streams[0]);
  script.put(*device, streams);
  void* graph = gpu.end_capture(streams[0]);
  for (unsigned seed = 5; seed < 8; ++seed) {
    script.upload(seed);
    gpu.launch(graph, streams[0]);
    if (!gpu.wait(streams[0], soon())) return "a replayed graph is stuck";
    if (const auto wrong = script.compare(); !wrong.empty()) return "replayed: " + wrong;
  }
  for (int i = 0; i < 5; ++i) gpu.launch(graph, streams[0]);
  return gpu.wait(streams[0], soon()) ? "" : "a graph replayed in a row is stuck";
}

void script_of_rank(int rank, int size, char** argv) {
  try {
    const auto group = join(rank, size, argv);
    static std::mutex mutex;
    {
      const std::lock_guard lock(mutex);
      print("ready");
    }
    const std::string wrong = run_script(*group);
    group->barrier({soon()});
    const std::lock_guard lock(mutex);
    print(wrong.empty() ? "ok" : "wrong " + wrong);
  } catch (const std::exception& error) {
    print(std::string("wrong ") + error.what());
  }
}

// Calls until the group has failed; in time, or as far ahead of the GPU as its queue lets the host.
void loop(DeviceGroup& device, Gpu& gpu, DeviceStream stream, const std::string& mode) {
  constexpr std::size_t kCount = 100'000;
  std::byte* data = gpu.allocate(kCount * sizeof(float));
  const auto calls = [&](int count) {
    for (int i = 0; i < count; ++i)
      device.all_reduce(data, data, kCount, DataType::f32, ReduceOp::maximum, stream);
  };
  void* graph = nullptr;
  if (mode == "replays") {
    gpu.begin_capture(stream);
    calls(5);
    graph = gpu.end_capture(stream);
  }
  while (true) {
    if (graph == nullptr)
      calls(20);
    else
      for (int i = 0; i < 4; ++i) gpu.launch(graph, stream);
    while (mode != "ahead" && !gpu.wait(stream, Deadline::after(std::chrono::milliseconds(2))))
      if (mode != "watched") device.check();
  }
}

int run_until_error(Group& group, const std::string& mode) {
  Gpu gpu(group.rank() % static_cast<int>(Gpu::count()));
  const DeviceStream stream = gpu.make_stream();
  const auto arithmetic = std::make_shared<HostArithmetic>(gpu);
  auto device = ipc::form(group, arithmetic, soon(), {.slot_bytes = 65536});
  std::thread watch;
  if (mode == "watched")
    watch = std::thread([&] {
      try {
        while (true) group.barrier({soon()});
      } catch (const Error& error) {
        device->abort(error.what());
      }
    });
  print("ready");
  try {
    loop(*device, gpu, stream, mode);
  } catch (const Error& error) {
    print(std::string("error ") + error.what());
  }
  if (mode == "watched") watch.join();
  const auto end_group = [&] {
    device.reset();
    print("gone");
  };
  if (mode == "replays") end_group();
  print(gpu.wait(stream, Deadline::after(std::chrono::seconds(10))) ? "ended" : "stuck");
  if (device) end_group();
  return 0;
}

int run_refused(Group& group, const std::string& mode) {
  const std::size_t last = mode.rfind('-');
  Gpu gpu(0);
  if (group.rank() == std::atoi(mode.c_str() + last + 1))
    Gpu::fail_call(mode.substr(8, last - 8).c_str());
  print("ready");
  try {
    ipc::form(group, std::make_shared<HostArithmetic>(gpu), soon());
    print("formed");
  } catch (const Error& error) {
    print(std::string("error ") + error.what());
  }
  print("mappings " + std::to_string(Gpu::stand_in_mappings()));
  group.barrier({soon()});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int rank = std::atoi(argv[1]);
  const int size = std::atoi(argv[2]);
  const std::string mode = argv[6];
  if (mode == "pair-script") {
    std::thread second([&] { script_of_rank(2 * rank + 1, 2 * size, argv); });
    script_of_rank(2 * rank, 2 * size, argv);
    second.join();
    return 0;
  }
  if (mode == "script") {
    script_of_rank(rank, size, argv);
    return 0;
  }
  const auto group = join(rank, size, argv);
  if (mode.starts_with("refused-")) return run_refused(*group, mode);
  return run_until_error(*group, mode);
}
