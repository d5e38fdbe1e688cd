// The rows of `cohort doctor` about GPUs.
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/collective/device/cuda_driver.h"
#include "cohort/collective/ipc/ipc.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/tools/doctor.h"

namespace cohort::tools {

Finding check_gpus() {
  const auto visible = launch::visible_gpus(cluster::Environment::of_this_process());
  std::string why;
  const auto* driver = collective::CudaDriver::find(&why);
  if (driver == nullptr) {
    if (visible.empty()) return {.subject = "GPUs", .text = "none"};
    return {"GPUs", Level::note,
            fmt::format("{} ({}), but {}", visible.size(), join(visible, ", "), why),
            "Install NVIDIA's driver; in a container, start it with access to the GPUs."};
  }
  std::vector<std::string> gpus;
  for (const auto& device : driver->devices())
    gpus.push_back(
        fmt::format("{} ({:.0f} GB)", device.name, static_cast<double>(device.memory) / 1e9));
  const int version = driver->version();
  return {.subject = "GPUs",
          .text = fmt::format("{}: {}; the driver serves CUDA {}.{}", gpus.size(), join(gpus, ", "),
                              version / 1000, version % 1000 / 10)};
}

Finding check_device_transport(const std::string& nccl) {
  const std::string no_ipc = collective::ipc::problem();
  if (collective::CudaDriver::find() == nullptr)
    return {.subject = "among GPUs", .text = "nothing to choose: there are none"};
  const std::string within =
      no_ipc.empty() ? "CUDA IPC where ranks of a host share a GPU, or come and go" : no_ipc;
  if (nccl.empty())
    return {
        "among GPUs", Level::note,
        fmt::format("with --transport gpu: {}; else, and between hosts, the host's memory: no NCCL",
                    within),
        "LibTorch's packages for CUDA bring NCCL along (nvidia-nccl)."};
  return {.subject = "among GPUs",
          .text = fmt::format(
              "with --transport gpu: NCCL {} where each rank has a GPU; {}; else the host's memory",
              nccl, within)};
}

}  // namespace cohort::tools
