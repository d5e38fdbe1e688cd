#include "cohort/parallel/tables/local_tables.h"

#include <map>
#include <set>

#include "cohort/base/error.h"
#include "cohort/ps/table/private_arena.h"

namespace cohort::parallel {
namespace {

struct Found {
  std::shared_ptr<torch::nn::Module> module;
  TableModule* table = nullptr;
};

// By name, each module once.
std::map<std::string, Found> find_tables(torch::nn::Module& model) {
  std::map<std::string, Found> all, once;
  for (const auto& entry : model.named_modules({}, /*include_self=*/false))
    if (auto* table = dynamic_cast<TableModule*>(entry.value().get()))
      all[entry.key()] = {entry.value(), table};
  std::set<TableModule*> seen;
  for (const auto& [name, found] : all)
    if (seen.insert(found.table).second) once[name] = found;
  return once;
}

}  // namespace

struct LocalTables::Table final : TableRows {
  std::shared_ptr<torch::nn::Module> kept;
  TableModule* module = nullptr;
  double lr = 0;
  ps::TableSpec spec;
  std::unique_ptr<ps::PrivateArena> memory;
  std::unique_ptr<ps::SparseTable> rows;

  void begin(std::uint64_t version) {
    rows.reset();
    memory = std::make_unique<ps::PrivateArena>();
    rows = ps::SparseTable::create(spec, module->rule(), 1, memory->arena(), 0, version);
  }

  void pull(std::span<const std::uint64_t> keys, float* values) override {
    rows->read(keys, values);
  }

  void update(double loss_scale) {
    ps::RowGradients gradients = module->take_gradients();
    if (loss_scale != 1)
      for (float& value : gradients.values) value /= static_cast<float>(loss_scale);
    const std::uint64_t version = rows->version() + 1;
    const std::pair<int, std::uint64_t> ledger[] = {{0, version}};
    if (rows->prepare(gradients, lr, version, ledger)) {
      rows->commit();
      return;
    }
    rows->roll_back();
    throw Error(fmt::format("a gradient of table '{}' is not finite", rows->spec().name),
                {.during = fmt::format("step {}", version),
                 .advice = "Lower the learning rate, or look at the data."});
  }
};

LocalTables::LocalTables(torch::nn::Module& model) {
  for (const auto& [name, found] : find_tables(model)) {
    auto table = std::make_unique<Table>();
    table->spec = found.table->table();
    table->spec.name = name;
    table->kept = found.module;
    table->module = found.table;
    table->lr = found.table->rule().lr;
    table->begin(0);
    found.table->connect(*table);
    tables_.push_back(std::move(table));
  }
}

LocalTables::~LocalTables() = default;

void LocalTables::update(double loss_scale) {
  for (const auto& table : tables_) table->update(loss_scale);
}

void LocalTables::drop_gradients() {
  for (const auto& table : tables_) table->module->take_gradients();
}

std::vector<LocalTables::Size> LocalTables::sizes() const {
  std::vector<Size> sizes;
  for (const auto& table : tables_)
    sizes.push_back({table->rows->spec().name, table->rows->rows(), table->rows->bytes()});
  return sizes;
}

TableImages LocalTables::images() const {
  TableImages images;
  for (const auto& table : tables_) {
    auto& pieces = images[table->spec.name];
    table->rows->write_snapshot([&](std::string_view piece) { pieces.emplace_back(piece); });
  }
  return images;
}

void LocalTables::restore(const TableImages& images, std::uint64_t updates) {
  std::vector<std::string> names;
  for (const auto& table : tables_) names.push_back(table->spec.name);
  expect_tables(images, names);
  for (const auto& table : tables_) {
    table->begin(updates);
    for (const std::string& piece : images.at(table->spec.name))
      table->rows->apply_snapshot_piece(piece);
  }
}

std::string LocalTables::first_table(torch::nn::Module& model) {
  const auto found = find_tables(model);
  return found.empty() ? std::string() : found.begin()->first;
}

}  // namespace cohort::parallel
