// How long a worker takes to read a few values of a large model.
#include <fmt/core.h>

#include "bench/ps/model.h"
#include "bench/ps/sections.h"

namespace cohort::bench {

void measure_latency(const Size& size, Targets& targets) {
  const int calls = size.quick ? 200 : 20'000;
  std::vector<double> medians, tails;
  for (int round = 0; round < size.rounds; ++round) {
    Shared<double> micros(static_cast<std::size_t>(calls));
    Job job({});
    const ps::ModelSpec spec =
        make_spec(size.elements(kModelElements), 1, ps::Policy::Mode::sync, /*momentum=*/1);
    job.start_worker(0, [&](ps::Client& client) {
      const WorkerModel model(spec, 0);
      const ps::InitialState initial = model.initial();
      client.begin(spec, &initial, soon());
      std::vector<float> values(256);
      for (int i = 0; i < calls; ++i) {
        const auto block = static_cast<std::size_t>(i) % spec.blocks.size();
        const std::uint64_t offset =
            static_cast<std::uint64_t>(i) * 4099 % (spec.blocks[block].elements - values.size());
        const ps::BlockRun run{.block = static_cast<int>(block),
                               .offset = offset,
                               .elements = values.size(),
                               .memory = reinterpret_cast<std::byte*>(values.data())};
        const double begin = now();
        client.read(std::span(&run, 1), 0, soon());
        micros[static_cast<std::size_t>(i)] = 1e6 * (now() - begin);
        for (std::size_t k = 0; k < values.size(); ++k)
          if (values[k] != begin_value(model.block_begin[block] + offset + k))
            throw Error(
                fmt::format("read {} at element {} of block {}", values[k], offset + k, block));
      }
    });
    job.finish();
    const Spread spread({micros.all().begin(), micros.all().end()});
    medians.push_back(spread.median);
    tails.push_back(spread.p99);
  }
  fmt::print("\nreading 1 kB on shared memory: median {:.2f} us, 99% within {:.2f} us\n",
             median(medians), median(tails));
  targets.record("read_1kb_us", Spread(medians));
  targets.record("read_1kb_p99_us", Spread(tails));
  targets.expect("ps_read_1kb_us", median(medians), "<", 30);
}

}  // namespace cohort::bench
