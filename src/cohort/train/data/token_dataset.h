#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "cohort/train/data/dataset.h"
#include "cohort/train/data/token_file.h"
#include "cohort/train/data/token_windows.h"

namespace cohort::train {

struct TokenDatasetOptions {
  std::int64_t sequence = 1024;     // tokens of a sample
  std::int64_t stride = 0;          // from one sample's first token to the next one's; 0: sequence
  std::int64_t vocabulary = 0;      // a token that is not below it is refused; 0: any is taken
  TokenType type = TokenType::u16;  // of raw files
  std::int64_t header_bytes = 0;    // before the first token of raw files
};

// Text as tokens, for a model that tells the next one: sample i is `sequence` tokens from
// i * stride on; its target is the same row one token further. Batch: data and target, int64,
// samples x sequence. Files stay on the disk (token_file.h); several follow one another, and no
// sample crosses from one into the next.
//
//   cohort::TokenDataset("train.bin", {.sequence = 256, .vocabulary = 50257})
//
// Thread-safe: all methods are const. Failure: InvalidInput for files or tokens as they must not
// be, and where no sample fits.
class TokenDataset final : public Dataset {
 public:
  explicit TokenDataset(const std::filesystem::path& path, const TokenDatasetOptions& options = {});
  explicit TokenDataset(const std::vector<std::filesystem::path>& paths,
                        const TokenDatasetOptions& options = {});
  explicit TokenDataset(std::vector<std::int64_t> tokens, const TokenDatasetOptions& options = {});

  std::int64_t size() const override { return windows_.size(); }
  bool has_one_shape() const override { return true; }
  std::int64_t tokens() const { return windows_.tokens(); }
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override;

 private:
  TokenWindows windows_;
};

}  // namespace cohort::train
