// One rank of the benchmark over Cohort.
// usage: collective_bench_cohort RANK SIZE STORE_HOST STORE_PORT ID [full|idle|tcp]
#include <sys/resource.h>

#include <memory>
#include <thread>

#include "bench/collective/cases.h"
#include "cohort/collective/form.h"
#include "cohort/collective/world.h"
#include "cohort/transport/store_rendezvous.h"

namespace {

using namespace cohort;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + t.tv_usec / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// All ranks wait two seconds for rank 0 in a barrier.
void measure_idle(collective::Group& group) {
  group.barrier();
  const double before = cpu_seconds();
  if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  group.barrier();
  std::printf("idle %d %.6f\n", group.rank(), (cpu_seconds() - before) / 2.0);
}

void measure_all(collective::Group& group, bool full) {
  for (const bench::Case& what : bench::make_cases(full)) {
    const auto type = what.type == "f32" ? collective::DataType::f32 : collective::DataType::bf16;
    const std::size_t count = what.bytes / collective::size_of(type);
    collective::Buffer shared;
    std::unique_ptr<std::byte[]> own;
    void* data = nullptr;
    if (what.memory == "group") {
      shared = group.allocate(what.bytes);
      data = shared.data();
    } else {
      own = std::make_unique<std::byte[]>(what.bytes);
      data = own.get();
    }
    bench::measure(what, data, group.rank(), group.size(),
                   [&] { group.all_reduce(data, data, count, type); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const int rank = std::atoi(argv[1]);
  const int size = std::atoi(argv[2]);
  bench::bind_to_core(rank, size);
  const std::string mode = argc > 6 ? argv[6] : "";
  const Deadline soon = Deadline::after(std::chrono::seconds(30));
  auto store = cluster::StoreClient::connect({.address = {argv[3], std::atoi(argv[4])},
                                              .secret = {},
                                              .name = fmt::format("rank/{}", rank)},
                                             soon);
  auto rendezvous = std::make_shared<transport::StoreRendezvous>(*store, argv[5]);
  collective::Member self{.rank = rank, .size = size};
  collective::FormOptions form;
  if (mode == "tcp") {  // as if each rank had a host of its own
    self.host_identity = fmt::format("host {}", rank);
    collective::use_network(form, {});
  }
  const auto group = collective::form_group(self, rendezvous, form, soon);
  if (mode == "idle")
    measure_idle(*group);
  else
    measure_all(*group, mode == "full");
  group->barrier();
  return 0;
}
