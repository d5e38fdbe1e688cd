#include "cohort/train/data/token_dataset.h"

#include <utility>

#include "cohort/train/data/image_store.h"

namespace cohort::train {
namespace {

using TokenRows = std::vector<std::shared_ptr<const TokenStore>>;

TokenRows open_token_files(const std::vector<std::filesystem::path>& paths,
                           const TokenDatasetOptions& options) {
  TokenRows rows;
  for (const auto& path : paths)
    rows.push_back(
        open_token_file(path, {.type = options.type, .header_bytes = options.header_bytes}));
  return rows;
}

TokenWindows token_windows(TokenRows rows, const TokenDatasetOptions& options) {
  return TokenWindows(std::move(rows), options.sequence,
                      options.stride != 0 ? options.stride : options.sequence, options.vocabulary);
}

}  // namespace

TokenDataset::TokenDataset(const std::filesystem::path& path, const TokenDatasetOptions& options)
    : TokenDataset(std::vector<std::filesystem::path>{path}, options) {}

TokenDataset::TokenDataset(const std::vector<std::filesystem::path>& paths,
                           const TokenDatasetOptions& options)
    : windows_(token_windows(open_token_files(paths, options), options)) {}

TokenDataset::TokenDataset(std::vector<std::int64_t> tokens, const TokenDatasetOptions& options)
    : windows_(token_windows({tokens_in_memory(std::move(tokens))}, options)) {}

Batch TokenDataset::get(std::span<const std::int64_t> indices, const DrawKey&) const {
  check_indices(indices, size());
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto length = static_cast<std::size_t>(windows_.sequence());
  Batch batch{torch::empty({count, windows_.sequence()}, torch::kInt64),
              torch::empty({count, windows_.sequence()}, torch::kInt64)};
  auto* data = batch.data.data_ptr<std::int64_t>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    windows_.read(index, {data, length}, {target, length});
    data += length;
    target += length;
  }
  return batch;
}

}  // namespace cohort::train
