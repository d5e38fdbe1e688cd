#include "cohort/train/exchange.h"

#include "cohort/train/all_reduce_exchange.h"
#include "cohort/train/elastic_exchange.h"
#include "cohort/train/server_exchange.h"

namespace cohort::train {

std::unique_ptr<Exchange> make_exchange(const parallel::Replica& replica,
                                        std::chrono::milliseconds timeout) {
  if (replica.servers != nullptr) return std::make_unique<ServerExchange>(replica, timeout);
  if (replica.elastic != nullptr) return std::make_unique<ElasticExchange>(replica, timeout);
  return std::make_unique<AllReduceExchange>(replica, timeout);
}

parallel::NamedTensors named(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  parallel::NamedTensors result;
  for (const auto& item : tensors) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace cohort::train
