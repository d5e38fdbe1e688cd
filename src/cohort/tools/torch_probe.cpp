// cohort-torch-probe: proves that LibTorch loads and computes, and says what it found as one line
// of JSON on standard output: "works", and "error" where it does not; "nccl" is the version of NCCL
// that is found beside it. A program of its own, so that
// `cohort doctor` starts without LibTorch and survives a broken one. Exit code 0 means that it
// could answer, whatever the answer.
#include <torch/torch.h>
#include <torch/version.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "cohort/collective/nccl/nccl.h"

namespace {

// [[1, 2], [3, 4]] squared, whose sum is 54: exact in every floating-point type and on any device.
bool multiplies_correctly() {
  torch::Tensor matrix = torch::arange(1, 5, torch::kFloat32).reshape({2, 2});
  return torch::matmul(matrix, matrix).sum().item<float>() == 54.0F;
}

nlohmann::ordered_json probe() {
  bool cuda = torch::cuda::is_available();
  return {
      {"works", multiplies_correctly()},
      {"version", TORCH_VERSION},
      {"threads", torch::get_num_threads()},
      {"cuda", cuda},
      {"devices", cuda ? torch::cuda::device_count() : 0},
      {"nccl", cohort::collective::nccl::version()},
  };
}

}  // namespace

int main() {
  nlohmann::ordered_json report;
  try {
    report = probe();
    if (!report["works"]) report["error"] = "a 2x2 matrix product came out wrong";
  } catch (const std::exception& error) {
    report = {{"works", false}, {"version", TORCH_VERSION}, {"error", error.what()}};
  }
  std::puts(report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}
