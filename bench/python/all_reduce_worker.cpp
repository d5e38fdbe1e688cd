// One rank of python_bench.py's all-reduces, in C++: on memory of the caller's, as a framework's
// tensors are.
// usage: python_bench_worker BYTES...
#include <cstdlib>
#include <memory>

#include "bench/collective/cases.h"
#include "cohort/base/process/run_main.h"
#include "cohort/collective/world.h"

int main(int argc, char** argv) {
  using namespace cohort;
  return run_main("python_bench_worker", [&] {
    collective::World world = collective::join_world(argc, argv);
    collective::Group& group = *world.group;
    bench::bind_to_core(group.rank(), group.size());
    for (int i = 1; i < argc; ++i) {
      const bench::Case what{"f32", static_cast<std::size_t>(std::atoll(argv[i])), "own"};
      const auto own = std::make_unique<std::byte[]>(what.bytes);
      bench::measure(what, own.get(), group.rank(), group.size(), [&] {
        group.all_reduce(own.get(), own.get(), what.bytes / 4, collective::DataType::f32);
      });
    }
    world.leave();
    return 0;
  });
}
