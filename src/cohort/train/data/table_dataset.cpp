#include "cohort/train/data/table_dataset.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {

TableDataset::TableDataset(const std::filesystem::path& path, const TableOptions& options) {
  for (ColumnValues& values : read_table(path, options)) {
    const Column& column = values.column;
    Part part{.values = column.type == ColumnType::number
                            ? torch::tensor(values.numbers, torch::kFloat32)
                            : torch::tensor(values.integers, torch::kInt64),
              .words = column.words};
    rows_ = part.values.size(0);
    if (!parts_.emplace(column.name, std::move(part)).second)
      throw InvalidInput(fmt::format("column '{}' was asked for twice", column.name));
  }
}

std::map<std::string, torch::Tensor> TableDataset::get(std::span<const std::int64_t> indices,
                                                       const DrawKey&) const {
  check_indices(indices, size());
  torch::Tensor where = torch::empty({static_cast<std::int64_t>(indices.size())}, torch::kInt64);
  std::copy(indices.begin(), indices.end(), where.data_ptr<std::int64_t>());
  std::map<std::string, torch::Tensor> batch;
  for (const auto& [name, part] : parts_) batch.emplace(name, part.values.index_select(0, where));
  return batch;
}

const TableDataset::Part& TableDataset::part(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found != parts_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, part] : parts_) names.push_back(known);
  throw InvalidInput(
      fmt::format("the table has no column '{}'; it has {}", name, join(names, ", ")),
      {.advice = "Name it in TableOptions::columns."});
}

torch::Tensor TableDataset::column(const std::string& name) const { return part(name).values; }

const std::vector<std::string>& TableDataset::words(const std::string& name) const {
  return part(name).words;
}

DatasetPtr TableDataset::pairs(const std::vector<std::string>& data,
                               const std::string& target) const {
  if (data.empty()) throw InvalidInput("pairs() of a table needs at least one column of data");
  std::vector<torch::Tensor> columns;
  for (const std::string& name : data) columns.push_back(column(name).to(torch::kFloat32));
  return std::make_shared<TensorDataset>(torch::stack(columns, 1), column(target));
}

}  // namespace cohort::train
