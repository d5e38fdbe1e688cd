#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cohort/train/data/dataset.h"
#include "cohort/train/data/table_columns.h"

namespace cohort::train {

// A CSV file's columns by name: numbers as float32, whole numbers and categories as int64, one
// element a row. Read once, held in memory.
//
//   cohort::TableDataset table("train.csv", {.columns = {
//       {.name = "age", .missing = cohort::MissingValue::fill, .fill = 30},
//       {.name = "city", .type = cohort::ColumnType::category},
//       {.name = "sold", .type = cohort::ColumnType::integer}}});
//   trainer.fit(table.pairs({"age"}, "sold"));
//
// Thread-safe: all methods are const. Failure: InvalidInput names line and column (table_columns.h).
class TableDataset final : public DatasetOf<std::map<std::string, torch::Tensor>> {
 public:
  TableDataset(const std::filesystem::path& path, const TableOptions& options);

  std::int64_t size() const override { return rows_; }
  bool has_one_shape() const override { return true; }
  std::map<std::string, torch::Tensor> get(std::span<const std::int64_t> indices,
                                           const DrawKey& key) const override;

  // All rows of a column. InvalidInput names one that was not read.
  torch::Tensor column(const std::string& name) const;
  // A category's words, by number.
  const std::vector<std::string>& words(const std::string& name) const;

  // Pairs for a model of one tensor: the columns of `data` as float32, rows x columns, and those
  // of `target` as they are.
  DatasetPtr pairs(const std::vector<std::string>& data, const std::string& target) const;

 private:
  struct Part {
    torch::Tensor values;
    std::vector<std::string> words;
  };
  const Part& part(const std::string& name) const;

  std::map<std::string, Part> parts_;
  std::int64_t rows_ = 0;
};

}  // namespace cohort::train
