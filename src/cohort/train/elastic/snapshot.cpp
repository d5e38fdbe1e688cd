#include "cohort/train/elastic/snapshot.h"

#include "cohort/base/data/crc32c.h"

namespace cohort::elastic {

namespace {

bool fits(const torch::Tensor& copy, const torch::Tensor& live) {
  return copy.scalar_type() == live.scalar_type() && copy.sizes() == live.sizes();
}

}  // namespace

std::uint32_t checksum(const TrainingSnapshot& snapshot) {
  std::string head;
  nlohmann::json::to_cbor(snapshot.values, head);  // not as text: JSON has no infinities
  head += train::describe_tensors(snapshot.tensors);
  std::uint32_t crc = crc32c(head.data(), head.size());
  for (const auto& [name, tensor] : snapshot.tensors) {
    const torch::Tensor held = train::on_cpu(tensor);
    const std::string_view bytes = train::bytes_of(held);
    crc = crc32c(bytes.data(), bytes.size(), crc);
  }
  return crc;
}

void copy_to_host(const TrainingSnapshot& live, TrainingSnapshot& copy) {
  const torch::NoGradGuard no_grad;
  copy.values = live.values;
  std::erase_if(copy.tensors, [&](const auto& item) { return !live.tensors.contains(item.first); });
  for (const auto& [name, tensor] : live.tensors) {
    auto [place, is_new] = copy.tensors.try_emplace(name);
    if (is_new || !fits(place->second, tensor))
      place->second = torch::empty(tensor.sizes(), torch::TensorOptions(tensor.scalar_type()));
    place->second.copy_(tensor);
  }
}

}  // namespace cohort::elastic
