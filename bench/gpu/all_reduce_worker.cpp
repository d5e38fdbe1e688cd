// One rank of gpu_bench.py's all-reduce: a tensor of the given size on this rank's device.
// usage: gpu_bench_worker BYTES SECONDS [any-order] [--device cuda ...]
//   any-order: the device group's own all_reduce instead of the one in the tree's order.
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <chrono>
#include <cmath>

#include "cohort/collective/device/device_group.h"
#include "cohort/parallel/cuda/device_streams.h"

namespace {

int measure(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();
  const auto arguments = context.arguments();
  const bool any_order = arguments.size() == 3 && arguments[2] == "any-order";
  if (arguments.size() != (any_order ? 3 : 2))
    throw cohort::InvalidInput("gpu_bench_worker takes the bytes of a tensor and seconds");
  auto strategy = context.strategy();  // whose replicas' GPUs meet in run()
  strategy->run([](const cohort::parallel::Replica&) {});
  const auto bytes = std::stoll(arguments[0]);
  const double seconds = std::stod(arguments[1]);
  const bool cuda = context.flags().wants_cuda();
  const torch::Device device =
      cuda
          ? torch::Device(torch::kCUDA,
                          static_cast<torch::DeviceIndex>(
                              context.local_rank() % static_cast<int>(torch::cuda::device_count())))
          : torch::Device(torch::kCPU);
  const auto wait = [&] {
    if (cuda) torch::cuda::synchronize(device.index());
  };
  auto tensor = torch::ones({bytes / 4}, torch::TensorOptions(torch::kFloat32).device(device));
  cohort::collective::Group& group = context;
  if (any_order && cuda && group.device() == nullptr)
    throw cohort::InvalidInput("this job's GPUs have no device group");
  const auto once = [&] {
    if (any_order && cuda)
      group.device()->all_reduce(
          tensor.data_ptr(), tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
          cohort::collective::DataType::f32, cohort::collective::ReduceOp::sum,
          cohort::parallel::current_stream(device));
    else
      cohort::all_reduce_(context, tensor);
  };
  for (int i = 0; i < 5; ++i) once();
  // The result is the sum: 1, then size, then size squared ...
  wait();
  const double expected = std::pow(context.size(), 5);
  if ((tensor != expected).any().item<bool>())
    throw cohort::Error("the all-reduce gave another sum than it should");
  tensor.zero_();
  // All ranks make the same number of calls, found from one that rank 0 has timed.
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](std::int64_t calls) {
    wait();
    cohort::parallel::barrier(context);
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) once();
    wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  auto calls = torch::tensor({seconds / (timed(5) / 5)}, torch::kFloat64);
  cohort::broadcast_(context, calls, 0);
  const auto count = static_cast<std::int64_t>(calls.item<double>()) + 5;
  const double each = timed(count) / static_cast<double>(count);
  const double factor = 2.0 * (context.size() - 1) / context.size();
  fmt::print("measured {{\"rank\": {}, \"seconds\": {}, \"bus_gb_per_second\": {}}}\n",
             context.rank(), each, factor * static_cast<double>(bytes) / each / 1e9);
  std::fflush(stdout);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("gpu_bench_worker", [&] { return measure(argc, argv); });
}
