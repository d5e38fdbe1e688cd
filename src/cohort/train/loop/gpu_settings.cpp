#include "cohort/train/loop/gpu_settings.h"

#include <cstdlib>
#include <string_view>

#include "cohort/base/error.h"

namespace cohort::train {

void prepare_for_gpu(torch::nn::Module& module, const TrainerOptions& options) {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(options.tf32);
  context.setAllowTF32CuDNN(options.tf32);
  context.setDeterministicCuDNN(options.deterministic);
  context.setBenchmarkCuDNN(!options.deterministic);
  context.setDeterministicAlgorithms(options.deterministic, /*warn_only=*/false);
  // Memory that is about to be written needs no known values first.
  context.setDeterministicFillUninitializedMemory(false);
  if (options.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  if (!options.channels_last) return;
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& parameter : module.parameters())
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
}

void with_refusals_named(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    const auto at = text.find(" does not have a deterministic implementation");
    if (at == std::string_view::npos) throw;
    const std::string_view operation = text.substr(0, at);
    throw InvalidInput(
        fmt::format("LibTorch has no deterministic kernel for {} on a GPU",
                    operation.substr(operation.find_last_of(' ') + 1)),
        {.advice =
             "Replace the operation, or set TrainerOptions::deterministic to false "
             "(--deterministic false): weights then differ in their last bits from run to run."});
  }
}

}  // namespace cohort::train
