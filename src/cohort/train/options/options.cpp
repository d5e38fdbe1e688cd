#include "cohort/train/options/options.h"

#include "cohort/base/error.h"

namespace cohort::train {

CudaGraph parse_cuda_graph(const std::string& text) {
  if (text == "auto") return CudaGraph::automatic;
  if (text == "off") return CudaGraph::off;
  if (text == "on") return CudaGraph::on;
  throw InvalidInput(fmt::format("cuda_graph must be auto, off or on, got '{}'", text));
}

}  // namespace cohort::train
