#include "cohort/parallel/devices/device_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <typeinfo>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/collective/device/cuda_driver.h"
#include "cohort/collective/ipc/ipc.h"
#include "cohort/collective/nccl/nccl.h"
#include "cohort/parallel/cuda/torch_arithmetic.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/transport/host.h"

namespace cohort::parallel {

namespace {

constexpr std::pair<DeviceTransport, std::string_view> kTransports[] = {
    {DeviceTransport::host, "host"},
    {DeviceTransport::fitting, "gpu"},
    {DeviceTransport::nccl, "nccl"},
    {DeviceTransport::ipc, "ipc"},
};

std::string to_text(const DeviceCard& card) {
  return nlohmann::json{{"wanted", to_string(card.wanted)},
                        {"host", card.host},
                        {"process", card.process},
                        {"gpu", card.gpu},
                        {"nccl", card.nccl},
                        {"nccl_problem", card.nccl_problem},
                        {"nccl_shares_gpus", card.nccl_shares_gpus},
                        {"ipc_problem", card.ipc_problem},
                        {"changes", card.changes}}
      .dump();
}

DeviceCard card_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.wanted = parse_device_transport(json.at("wanted")),
          .host = json.at("host"),
          .process = json.at("process"),
          .gpu = json.at("gpu"),
          .nccl = json.at("nccl"),
          .nccl_problem = json.at("nccl_problem"),
          .nccl_shares_gpus = json.at("nccl_shares_gpus"),
          .ipc_problem = json.at("ipc_problem"),
          .changes = json.at("changes")};
}

std::array<std::byte, 16> gpu_of(torch::Device device) {
  torch::zeros({1}, device);  // LibTorch makes the device's context current on this thread
  const auto* driver = collective::CudaDriver::find();
  return driver == nullptr ? std::array<std::byte, 16>() : driver->current_device();
}

DeviceCard own_card(torch::Device device, DeviceTransport wanted, bool changes) {
  DeviceCard card{.wanted = wanted,
                  .host = transport::host_identity(),
                  .process = std::to_string(::getpid()),
                  .changes = changes};
  if (wanted == DeviceTransport::host) return card;
  card.nccl = collective::nccl::version(&card.nccl_problem);
  card.nccl_shares_gpus = !card.nccl.empty() && collective::nccl::may_share_gpu();
  for (const std::byte byte : gpu_of(device))
    card.gpu += fmt::format("{:02x}", static_cast<unsigned>(byte));
  card.ipc_problem = collective::ipc::problem();
  return card;
}

// The first that is not empty, with its rank.
std::string first_problem(const std::vector<DeviceCard>& cards, std::string DeviceCard::*problem) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    if (!(cards[rank].*problem).empty())
      return fmt::format("rank {}: {}", rank, cards[rank].*problem);
  return {};
}

bool shares_a_gpu(const std::vector<DeviceCard>& cards) {
  std::set<std::string> gpus;
  for (const DeviceCard& card : cards)
    if (!gpus.insert(card.host + " " + card.gpu).second) return true;
  return false;
}

// The driver may put the streams of a process on one GPU behind each other, also behind one that
// waits for what the other would do.
bool shares_a_gpu_in_a_process(const std::vector<DeviceCard>& cards) {
  std::set<std::string> gpus;
  for (const DeviceCard& card : cards)
    if (!gpus.insert(card.host + " " + card.process + " " + card.gpu).second) return true;
  return false;
}

std::string why_not_nccl(const std::vector<DeviceCard>& cards) {
  if (std::string problem = first_problem(cards, &DeviceCard::nccl_problem); !problem.empty())
    return problem;
  for (std::size_t rank = 1; rank < cards.size(); ++rank)
    if (cards[rank].nccl != cards[0].nccl)
      return fmt::format("rank {} has NCCL {}, rank 0 {}", rank, cards[rank].nccl, cards[0].nccl);
  if (shares_a_gpu_in_a_process(cards)) return "replicas of one process share a GPU";
  const bool may_share = std::all_of(cards.begin(), cards.end(),
                                     [](const DeviceCard& card) { return card.nccl_shares_gpus; });
  if (shares_a_gpu(cards) && !may_share)
    return fmt::format(
        "ranks share a GPU, which NCCL {} refuses (2.30 or newer with "
        "NCCL_MULTI_RANK_GPU_ENABLE=1 does not)",
        cards[0].nccl);
  return {};
}

std::string why_not_ipc(const std::vector<DeviceCard>& cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank)
    if (cards[rank].host != cards[0].host)
      return fmt::format("rank {} is on another host than rank 0", rank);
  if (shares_a_gpu_in_a_process(cards)) return "replicas of one process share a GPU";
  return first_problem(cards, &DeviceCard::ipc_problem);
}

DeviceChoice choose_what_fits(const std::vector<DeviceCard>& cards) {
  const std::string no_nccl = why_not_nccl(cards), no_ipc = why_not_ipc(cards);
  if (no_ipc.empty() && cards[0].changes)
    return {DeviceTransport::ipc, "one host, and ranks that come and go"};
  if (no_ipc.empty() && shares_a_gpu(cards))
    return {DeviceTransport::ipc, "one host, and ranks that share a GPU"};
  if (no_nccl.empty() && !cards[0].changes) return {DeviceTransport::nccl, "each rank has a GPU"};
  if (no_ipc.empty()) return {DeviceTransport::ipc, "one host, and no NCCL: " + no_nccl};
  return {DeviceTransport::host,
          fmt::format("not ipc: {}; not NCCL: {}", no_ipc,
                      no_nccl.empty() ? "it takes seconds to form anew" : no_nccl)};
}

}  // namespace

DeviceTransport parse_device_transport(const std::string& flag) {
  for (const auto& [transport, name] : kTransports)
    if (flag == name) return transport;
  return DeviceTransport::host;
}

std::string_view to_string(DeviceTransport transport) {
  for (const auto& [known, name] : kTransports)
    if (transport == known) return name;
  return {};
}

DeviceChoice choose_device_transport(const std::vector<DeviceCard>& cards) {
  const DeviceTransport wanted = cards[0].wanted;
  for (std::size_t rank = 1; rank < cards.size(); ++rank)
    if (cards[rank].wanted != wanted)
      throw InvalidInput(fmt::format("--transport is {} on rank {}, but {} on rank 0",
                                     to_string(cards[rank].wanted), rank, to_string(wanted)),
                         {.advice = "Give every worker the same."});
  if (wanted == DeviceTransport::fitting) return choose_what_fits(cards);
  std::string problem;
  if (wanted == DeviceTransport::nccl) problem = why_not_nccl(cards);
  if (wanted == DeviceTransport::ipc) problem = why_not_ipc(cards);
  if (!problem.empty())
    throw InvalidInput(fmt::format("--transport is {}, but {}", to_string(wanted), problem),
                       {.advice = "With --transport gpu what can be used is chosen; without the "
                                  "flag they go through the host's memory."});
  return {wanted, wanted == DeviceTransport::host
                      ? "--transport gpu lets them go from GPU to GPU"
                      : fmt::format("--transport {}", to_string(wanted))};
}

void use_devices(collective::Group& group, torch::Device device, DeviceTransport wanted,
                 bool changes, Deadline deadline) {
  if (group.size() == 1 || !device.is_cuda()) return;
  std::vector<DeviceCard> cards;
  for (const std::string& text :
       gather_texts(group, to_text(own_card(device, wanted, changes)), {deadline}))
    cards.push_back(card_of(text));
  DeviceChoice choice = choose_device_transport(cards);
  std::string name = "the host's memory";
  try {
    if (choice.transport == DeviceTransport::nccl)
      group.use_device(
          collective::nccl::form(group, {.device = gpu_of(device), .problem = {}}, deadline));
    if (choice.transport == DeviceTransport::ipc)
      group.use_device(collective::ipc::form(group, make_torch_arithmetic(device), deadline));
    if (group.device() != nullptr) name = group.device()->name();
  } catch (const Error& error) {
    // These two are thrown on every rank alike; anything else is about this rank, or a peer's end.
    const bool is_alike = typeid(error) == typeid(Error) || typeid(error) == typeid(InvalidInput);
    if (!is_alike || wanted != DeviceTransport::fitting) throw;
    choice.reason =
        fmt::format("{} could not be used: {}", to_string(choice.transport), error.message());
  }
  if (group.rank() == 0) log::info("gradients on GPUs travel by {} ({})", name, choice.reason);
}

}  // namespace cohort::parallel
