#include "cohort/parallel/strategies/layout.h"

#include <set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::parallel {

namespace {

std::string write_card(const WorkerCard& card) {
  return join({card.strategy, std::to_string(card.replicas), card.device, card.host,
               card.visible_gpus, std::to_string(card.gpus)},
              "\n");
}

WorkerCard read_card(const std::string& text) {
  const auto fields = split(text, '\n');
  const auto number = [&](std::size_t i) { return static_cast<int>(*parse_unsigned(fields[i])); };
  if (fields.size() != 6 || !parse_unsigned(fields[1]) || !parse_unsigned(fields[5]))
    throw ProtocolError("a worker described its layout in another way",
                        {.advice = "Run the same version of the program everywhere."});
  return {fields[0], number(1), fields[2], fields[3], fields[4], number(5)};
}

// Whether no GPU is in two of these workers' CUDA_VISIBLE_DEVICES.
bool own_gpus_each(const std::vector<const WorkerCard*>& workers) {
  std::set<std::string> seen;
  for (const WorkerCard* worker : workers) {
    if (worker->visible_gpus.empty()) return false;
    for (const std::string& gpu : split(worker->visible_gpus, ','))
      if (!seen.insert(std::string(trim(gpu))).second) return false;
  }
  return true;
}

}  // namespace

std::vector<WorkerCard> exchange_cards(collective::Group& workers, const WorkerCard& mine) {
  std::vector<WorkerCard> cards;
  for (const std::string& text : gather_texts(workers, write_card(mine)))
    cards.push_back(read_card(text));
  return cards;
}

void check_same_layout(const std::vector<WorkerCard>& cards) {
  const auto say = [](const WorkerCard& card) {
    return fmt::format("{} with {} replica{} a worker on {}", card.strategy, card.replicas,
                       card.replicas == 1 ? "" : "s", card.device);
  };
  for (std::size_t i = 1; i < cards.size(); ++i)
    if (say(cards[i]) != say(cards[0]))
      throw InvalidInput(fmt::format("worker {} was started for {}, but worker 0 for {}", i,
                                     say(cards[i]), say(cards[0])),
                         {.advice = "Give all workers the same flags."});
}

std::vector<torch::Device> choose_devices(const StrategyFlags& flags,
                                          const std::vector<WorkerCard>& cards, int rank) {
  const int replicas = flags.replicas_per_worker();
  const WorkerCard& mine = cards.at(static_cast<std::size_t>(rank));
  if (!flags.wants_cuda())
    return std::vector<torch::Device>(static_cast<std::size_t>(replicas), torch::kCPU);

  std::vector<const WorkerCard*> neighbours;
  int index = 0;  // of this worker among them
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].host != mine.host) continue;
    if (static_cast<int>(i) < rank) ++index;
    neighbours.push_back(&cards[i]);
  }
  const auto workers = static_cast<int>(neighbours.size());
  const int first = workers > 1 && own_gpus_each(neighbours) ? 0 : index * replicas;
  if (mine.gpus == 0)
    throw InvalidInput(
        flags.num_gpus > 0
            ? fmt::format("--num_gpus is {}, but LibTorch sees 0 GPUs", flags.num_gpus)
            : "--device is cuda, but LibTorch sees 0 GPUs",
        {.advice = "Use a LibTorch built for CUDA on a machine with a GPU, or leave "
                   "the flag out."});
  if (flags.num_gpus > 0 && first + replicas > mine.gpus)
    throw InvalidInput(
        workers > 1
            ? fmt::format(
                  "--num_gpus is {} for each of {} workers of this host, but worker {} sees "
                  "{} GPUs",
                  flags.num_gpus, workers, rank, mine.gpus)
            : fmt::format("--num_gpus is {}, but LibTorch sees {} GPUs", flags.num_gpus, mine.gpus),
        {.advice = workers > 1 ? "Ask for fewer, start fewer workers, or give each worker GPUs of "
                                 "its own with CUDA_VISIBLE_DEVICES."
                               : "Ask for fewer."});
  std::vector<torch::Device> devices;
  for (int i = 0; i < replicas; ++i)
    devices.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>((first + i) % mine.gpus));
  return devices;
}

}  // namespace cohort::parallel
