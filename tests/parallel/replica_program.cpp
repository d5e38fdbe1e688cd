// One task of a job for strategies_test.py. The first argument says what its replicas do:
//   sum         add up their ranks and train a step; prints what each found
//   throw RANK  replica RANK throws; the others go on in a collective
//   kill RANK   replica RANK kills its process
#include <cohort/cohort.h>
#include <fmt/core.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdio>

namespace {

using cohort::Replica;

// Parameters after a few steps on data that depends on the replica: equal on all of them.
double train(const Replica& replica) {
  torch::nn::Linear model(4, 2);
  cohort::broadcast_parameters(*replica.group, *model);
  torch::optim::SGD sgd(model->parameters(), 0.1);
  cohort::DistributedOptimizer optimizer(*replica.group, sgd);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    model->forward(torch::full({2, 4}, replica.rank + step + 1.0f)).square().mean().backward();
    optimizer.step();
  }
  double sum = 0;
  for (const auto& parameter : model->parameters())
    sum += parameter.to(torch::kDouble).sum().item<double>();
  return sum;
}

void act(const std::string& action, int culprit, const Replica& replica) {
  if (action == "sum") {
    torch::Tensor sum = cohort::all_reduce(*replica.group, torch::tensor({replica.rank}));
    const double mine = train(replica);
    const torch::Tensor all =
        cohort::all_gather(*replica.group, torch::tensor({mine}, torch::kDouble));
    fmt::print("replica {} of {} sum {} over {} same {} weights {:a}\n", replica.rank, replica.size,
               sum.item<std::int64_t>(), replica.group->backend_name(),
               all.eq(mine).all().item<bool>(), mine);
    std::fflush(stdout);
    return;
  }
  if (replica.rank == culprit && action == "throw")
    throw std::runtime_error(fmt::format("replica {} has a label 12 of 10", culprit));
  if (replica.rank == culprit) ::raise(SIGKILL);
  while (true) cohort::all_reduce(*replica.group, torch::ones({1}));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    torch::manual_seed(1);  // so that runs can be compared
    auto context = cohort::init(argc, argv);
    if (context.is_service()) return context.serve();
    const auto& words = context.arguments();
    const std::string action = words.empty() ? "sum" : words[0];
    const int culprit = words.size() > 1 ? std::stoi(words[1]) : -1;
    context.strategy()->run([&](const Replica& replica) { act(action, culprit, replica); });
    return 0;  // the context leaves the job
  } catch (const std::exception& error) {
    fmt::print(stderr, "replica_program: {}\n", error.what());
    return 1;
  }
}
