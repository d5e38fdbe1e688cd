// One rank of the benchmark over Gloo (tcp on loopback; it has no shared memory and no bf16).
// usage: collective_bench_gloo RANK SIZE FOLDER [full]
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/collective/cases.h"

int main(int argc, char** argv) {
  using namespace cohort;
  if (argc < 4) return 2;
  const int rank = std::atoi(argv[1]);
  const int size = std::atoi(argv[2]);
  bench::bind_to_core(rank, size);
  gloo::transport::tcp::attr where;
  where.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  const bool full = argc > 4 && std::string(argv[4]) == "full";
  for (const bench::Case& what : bench::make_cases(full)) {
    if (what.type != "f32" || what.memory == "group") continue;
    std::vector<float> data(what.bytes / 4);
    bench::measure(what, data.data(), rank, size, [&] {
      gloo::AllreduceOptions options(context);
      options.setOutput(data.data(), data.size());
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    });
  }
  return 0;
}
