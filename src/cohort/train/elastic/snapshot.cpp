#include "cohort/train/elastic/snapshot.h"

#include <fmt/format.h>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/parallel/tensors/broadcast_state.h"

namespace cohort::elastic {

namespace {

// Not as text: JSON has no infinities.
std::string encode(const nlohmann::json& values) {
  std::string bytes;
  nlohmann::json::to_cbor(values, bytes);
  return bytes;
}

bool fits(const torch::Tensor& copy, const torch::Tensor& live) {
  return copy.scalar_type() == live.scalar_type() && copy.sizes() == live.sizes();
}

}  // namespace

std::uint32_t checksum(const Snapshot& snapshot) {
  const std::string head = encode(snapshot.values) + train::describe_tensors(snapshot.tensors);
  std::uint32_t crc = crc32c(head.data(), head.size());
  for (const auto& [name, tensor] : snapshot.tensors) {
    const torch::Tensor held = train::on_cpu(tensor);
    const std::string_view bytes = train::bytes_of(held);
    crc = crc32c(bytes.data(), bytes.size(), crc);
  }
  return crc;
}

void copy_to_host(const Snapshot& live, Snapshot& copy) {
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

Snapshot broadcast_snapshot(collective::Group& group, const Snapshot& mine, int root,
                            collective::CallOptions options) {
  const bool sends = group.rank() == root;
  const nlohmann::json head = nlohmann::json::from_cbor(
      parallel::broadcast_object(group,
                                 sends ? encode({{"values", mine.values},
                                                 {"tensors", train::describe_tensors(mine.tensors)},
                                                 {"checksum", checksum(mine)}})
                                       : "",
                                 root, options));
  Snapshot result = sends
                        ? mine
                        : Snapshot{head.at("values"),
                                   train::allocate_tensors(head.at("tensors").get<std::string>())};
  parallel::broadcast_parameters(
      group, parallel::NamedTensors(result.tensors.begin(), result.tensors.end()), root, options);
  if (!sends && checksum(result) != head.at("checksum").get<std::uint32_t>())
    throw PeerError(
        fmt::format("the state that rank {} sent has another checksum than it had there", root),
        {.during = "elastic::State::sync"});
  return result;
}

}  // namespace cohort::elastic
