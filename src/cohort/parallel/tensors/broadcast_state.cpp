#include "cohort/parallel/tensors/broadcast_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/parallel/devices/device_calls.h"
#include "cohort/parallel/tensors/named_call.h"
#include "cohort/parallel/tensors/tensor_staging.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::parallel {

namespace {

// Tensors travel together in messages of about this size.
constexpr std::int64_t kMessageBytes = std::int64_t{32} << 20;

std::string describe(const std::string& name, const torch::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return fmt::format("{} {} [{}]", name, torch::toString(tensor.scalar_type()), join(sizes, ", "));
}

// Every rank gives its list; all ranks throw when one's differs from the root's.
void check_same_lists(collective::Group& group, const std::vector<std::string>& mine, int root,
                      const char* during, const char* advice, const CallOptions& options) {
  const auto wanted = split(broadcast_text(group, join(mine, "\n"), root, options), '\n');
  std::string difference;
  for (std::size_t i = 0; i < std::max(wanted.size(), mine.size()) && difference.empty(); ++i) {
    const std::string here = i < mine.size() ? mine[i] : "nothing";
    const std::string there = i < wanted.size() ? wanted[i] : "nothing";
    if (here != there) difference = fmt::format("has {} where rank {} has {}", here, root, there);
  }
  const auto differences = gather_texts(group, difference, options);
  for (std::size_t rank = 0; rank < differences.size(); ++rank)
    if (!differences[rank].empty())
      throw InvalidInput(fmt::format("rank {} {}", rank, differences[rank]),
                         {.during = during, .advice = advice});
}

std::int64_t bytes_of(const torch::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

// On GPUs the message stays there where the group can send it so.
void broadcast_together(collective::Group& group, const std::vector<torch::Tensor>& tensors,
                        int root, const CallOptions& options) {
  const torch::Device device = tensors.front().device();
  const bool stays = std::all_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& tensor) {
    return tensor.device() == device && has_device_group(group, tensor);
  });
  std::int64_t total = 0;
  for (const torch::Tensor& tensor : tensors) total += bytes_of(tensor);
  const torch::Tensor message = torch::empty(
      {total}, torch::TensorOptions().dtype(torch::kByte).device(stays ? device : torch::kCPU));
  const auto for_each_place = [&](const auto& use) {
    std::int64_t at = 0;
    for (const torch::Tensor& tensor : tensors) {
      const torch::Tensor place = message.narrow(0, at, bytes_of(tensor));
      if (tensor.numel() > 0) use(tensor, place.view(tensor.scalar_type()).view(tensor.sizes()));
      at += bytes_of(tensor);
    }
  };
  if (group.rank() == root)
    for_each_place([](const torch::Tensor& tensor, torch::Tensor place) { place.copy_(tensor); });
  broadcast_(group, message, root, options);
  if (group.rank() == root) return;
  for_each_place([](torch::Tensor tensor, const torch::Tensor& place) { tensor.copy_(place); });
}

// The archive of `optimizer`; empty when its class does not implement saving.
std::string save(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  torch::serialize::InputArchive back;
  std::istringstream input(stream.str());
  back.load_from(input);
  return back.keys().empty() ? std::string() : stream.str();
}

}  // namespace

namespace {

void broadcast_tensors(collective::Group& group, const NamedTensors& tensors, int root,
                       const CallOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> list;
  for (const auto& [name, tensor] : tensors) list.push_back(describe(name, tensor));
  check_same_lists(group, list, root, "broadcast_parameters", "Build the same model on every rank.",
                   options);
  std::vector<torch::Tensor> together;
  std::int64_t bytes = 0;
  // Ordered by element size within a message, so that each tensor is aligned in it.
  const auto send = [&] {
    std::stable_sort(together.begin(), together.end(), [](const auto& a, const auto& b) {
      return a.element_size() > b.element_size();
    });
    if (!together.empty()) broadcast_together(group, together, root, options);
    together.clear();
    bytes = 0;
  };
  for (const auto& [name, tensor] : tensors) {
    together.push_back(tensor.detach());
    bytes += bytes_of(tensor);
    if (bytes >= kMessageBytes) send();
  }
  send();
}

}  // namespace

void broadcast_parameters(collective::Group& group, const NamedTensors& tensors, int root,
                          CallOptions options) {
  named_call("broadcast_parameters()", [&] { broadcast_tensors(group, tensors, root, options); });
}

void broadcast_parameters(collective::Group& group, const torch::nn::Module& module, int root,
                          CallOptions options) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  broadcast_parameters(group, tensors, root, options);
}

void broadcast_optimizer_state(collective::Group& group, torch::optim::Optimizer& optimizer,
                               int root, CallOptions options) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> list;
  torch::Device device = torch::kCPU;
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g)
    for (const torch::Tensor& parameter : optimizer.param_groups()[g].params()) {
      list.push_back(describe(fmt::format("parameter group {}:", g), parameter));
      device = parameter.device();
    }
  check_same_lists(group, list, root, "broadcast_optimizer_state",
                   "Give every rank's optimizer the same parameters.", options);
  const std::string saved =
      broadcast_text(group, group.rank() == root ? save(optimizer) : "", root, options);
  if (saved.empty())
    throw InvalidInput("this optimizer cannot be saved, so its state cannot be sent",
                       {.during = "broadcast_optimizer_state",
                        .advice = "Override Optimizer::save and load in its class."});
  if (group.rank() == root) return;
  std::istringstream stream(saved);
  torch::serialize::InputArchive archive;
  archive.load_from(stream, device);
  optimizer.state().clear();
  optimizer.load(archive);
}

std::string broadcast_object(collective::Group& group, const std::string& object, int root,
                             CallOptions options) {
  return broadcast_text(group, object, root, options);
}

nlohmann::json broadcast_json(collective::Group& group, const nlohmann::json& object, int root,
                              CallOptions options) {
  return nlohmann::json::parse(
      broadcast_text(group, group.rank() == root ? object.dump() : "", root, options));
}

std::map<std::string, double> average_metrics(collective::Group& group,
                                              const std::map<std::string, double>& metrics,
                                              double weight, CallOptions options) {
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) {
    names.push_back(name);
    values.push_back(weight == 0 ? 0 : value * weight);
  }
  check_same_lists(group, names, 0, "average_metrics", "Give the same metrics on every rank.",
                   options);
  values.push_back(weight);
  group.all_reduce(std::span(values), {.deadline = options.deadline});
  std::map<std::string, double> averages;
  for (std::size_t i = 0; i < names.size(); ++i) averages[names[i]] = values[i] / values.back();
  return averages;
}

}  // namespace cohort::parallel
