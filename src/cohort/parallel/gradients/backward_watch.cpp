#include "cohort/parallel/gradients/backward_watch.h"

#include <torch/csrc/autograd/engine.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "cohort/base/text.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/transport/host.h"

namespace cohort::parallel {

BackwardWatch::BackwardWatch(const NamedTensors& parameters, std::function<void()> begin,
                             std::function<void()> end)
    : begin_(std::move(begin)), end_(std::move(end)) {
  for (const auto& [name, parameter] : parameters)
    if (parameter.defined() && parameter.requires_grad())
      hooks_.emplace_back(parameter,
                          parameter.register_hook([this](const torch::Tensor&) { on_gradient(); }));
}

BackwardWatch::~BackwardWatch() {
  for (auto& [parameter, hook] : hooks_) parameter.remove_hook(hook);
}

void BackwardWatch::on_gradient() {
  const std::lock_guard lock(mutex_);
  if (under_way_ || paused_) return;
  begin_();
  under_way_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback([this] { on_end(); });
}

void BackwardWatch::on_end() {
  {
    const std::lock_guard lock(mutex_);
    under_way_ = false;
  }
  end_();
}

ProcessSharing find_sharing(collective::Group& group, const NamedTensors& parameters) {
  if (group.size() == 1) return {};
  const auto on_gpu = std::find_if(parameters.begin(), parameters.end(),
                                   [](const auto& item) { return item.second.device().is_cuda(); });
  const std::string process = fmt::format("{} {}", transport::host_identity(), ::getpid());
  const std::string device = on_gpu == parameters.end() ? "" : on_gpu->second.device().str();
  const auto all = gather_texts(group, process + " " + device);
  const std::string mine = all[static_cast<std::size_t>(group.rank())];
  const auto in_process = std::count_if(all.begin(), all.end(), [&](const std::string& card) {
    return card.starts_with(process + " ");
  });
  return {.process = in_process > 1,
          .gpu = !device.empty() && std::count(all.begin(), all.end(), mine) > 1};
}

}  // namespace cohort::parallel
