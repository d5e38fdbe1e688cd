#include "cohort/train/sync/server_tables.h"

namespace cohort::train {

class ServerTables::Rows final : public parallel::TableRows {
 public:
  Rows(ps::Client& client, int table, std::function<std::uint64_t()> sequence,
       std::chrono::milliseconds timeout)
      : client_(client), table_(table), sequence_(std::move(sequence)), timeout_(timeout) {}

  void pull(std::span<const std::uint64_t> keys, float* values) override {
    client_.pull_rows(table_, keys, sequence_(), values, Deadline::after(timeout_));
  }

 private:
  ps::Client& client_;
  int table_;
  std::function<std::uint64_t()> sequence_;
  std::chrono::milliseconds timeout_;
};

ServerTables::ServerTables(torch::nn::Module& model) {
  for (const auto& item : model.named_modules())
    if (auto* module = dynamic_cast<parallel::TableModule*>(item.value().get()))
      modules_.emplace_back(item.key(), module);
}

ServerTables::~ServerTables() = default;

std::vector<std::string> ServerTables::names() const {
  std::vector<std::string> names;
  for (const auto& [name, module] : modules_) names.push_back(name);
  return names;
}

parallel::TableImages ServerTables::no_images() const {
  parallel::TableImages images;
  for (const auto& [name, module] : modules_) images[name];
  return images;
}

std::vector<std::vector<std::string>> ServerTables::pieces_of(parallel::TableImages images) const {
  std::vector<std::vector<std::string>> pieces;
  for (const auto& [name, module] : modules_) pieces.push_back(std::move(images[name]));
  return pieces;
}

void ServerTables::add_to(ps::ModelSpec& spec) const {
  for (const auto& [name, module] : modules_) {
    ps::TableSpec table = module->table();
    table.name = name;
    table.group = static_cast<int>(spec.groups.size());
    spec.groups.push_back(module->rule());
    spec.tables.push_back(std::move(table));
  }
}

void ServerTables::add_rates(std::vector<double>& rates) const {
  for (const auto& [name, module] : modules_) rates.push_back(module->rule().lr);
}

void ServerTables::connect(ps::Client& client, std::function<std::uint64_t()> sequence,
                           std::chrono::milliseconds timeout) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    rows_.push_back(std::make_unique<Rows>(client, static_cast<int>(i), sequence, timeout));
    modules_[i].second->connect(*rows_.back());
  }
}

void ServerTables::push(ps::Client& client) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const ps::RowGradients gradients = modules_[i].second->take_gradients();
    client.push_rows(static_cast<int>(i), gradients.keys, gradients.values);
  }
}

}  // namespace cohort::train
