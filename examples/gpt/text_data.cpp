#include "text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>

namespace examples {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& path) {
  return path.extension() == ".md" || path.extension() == ".txt";
}

std::vector<fs::path> texts_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && is_text(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// docs/ of the tree that this program was built in, or of the folder that it was started in.
std::vector<fs::path> own_documentation() {
  std::vector<fs::path> places;
  for (fs::path place = fs::read_symlink("/proc/self/exe").parent_path();;
       place = place.parent_path()) {
    places.push_back(place);
    if (place == place.root_path()) break;
  }
  places.push_back(fs::current_path());
  for (const auto& place : places)
    if (fs::is_directory(place / "docs"))
      if (auto files = texts_in(place / "docs"); !files.empty()) return files;
  return {};
}

// How many bytes the character at `i` has; 0: none is there.
std::size_t character_at(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  if (byte(i) < 0x80) return 1;
  const std::size_t size = byte(i) >= 0xf0 ? 4 : byte(i) >= 0xe0 ? 3 : 2;
  if (byte(i) < 0xc2 || byte(i) > 0xf4 || i + size > text.size()) return 0;
  for (std::size_t k = 1; k < size; ++k)
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  // Forms that are too long, halves of pairs, and what is above the last character.
  const unsigned second = byte(i + 1);
  const bool wrong = (byte(i) == 0xe0 && second < 0xa0) || (byte(i) == 0xed && second > 0x9f) ||
                     (byte(i) == 0xf0 && second < 0x90) || (byte(i) == 0xf4 && second > 0x8f);
  return wrong ? 0 : size;
}

cohort::DatasetPtr part(const cohort::DatasetPtr& all, std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - first));
  std::iota(indices.begin(), indices.end(), first);
  return std::make_shared<cohort::Subset>(all, std::move(indices));
}

}  // namespace

std::vector<fs::path> text_files(const fs::path& data) {
  const char* const advice = "Give --data a text file, or a folder with *.md or *.txt files.";
  std::vector<fs::path> files;
  if (data.empty()) {
    files = own_documentation();
    if (files.empty())
      throw cohort::InvalidInput("there is no folder docs beside this program or above it",
                                 {.advice = advice});
  } else if (fs::is_directory(data)) {
    files = texts_in(data);
    if (files.empty())
      throw cohort::InvalidInput(fmt::format("--data '{}' has no *.md or *.txt", data.string()),
                                 {.advice = advice});
  } else if (fs::is_regular_file(data)) {
    files = {data};
  } else {
    throw cohort::InvalidInput(fmt::format("--data '{}' does not exist", data.string()),
                               {.advice = advice});
  }
  return files;
}

std::string read_text(const std::vector<fs::path>& files) {
  std::string text;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
    if (!file) throw cohort::InvalidInput(fmt::format("'{}' cannot be read", path.string()));
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character_at(text, i);
    const bool control = size == 1 && static_cast<unsigned char>(text[i]) < 0x20 &&
                         text[i] != '\n' && text[i] != '\t';
    shown += size == 0 || control ? "?" : text.substr(i, size);
    i += std::max<std::size_t>(size, 1);
  }
  return shown;
}

std::shared_ptr<const cohort::Tokenizer> open_tokenizer(const fs::path& folder) {
  if (folder.empty()) return std::make_shared<cohort::ByteTokenizer>();
  if (!fs::exists(folder))
    throw cohort::InvalidInput(
        fmt::format("--tokenizer '{}' does not exist", folder.string()),
        {.advice = "Give a folder with vocab.json and merges.txt, or with a tokenizer.json."});
  return std::make_shared<cohort::BytePairTokenizer>(folder);
}

TextData load_text(const TextOptions& options, const cohort::Tokenizer& tokenizer) {
  const cohort::TokenDatasetOptions shape{.sequence = options.sequence,
                                          .vocabulary = options.vocabulary};
  cohort::DatasetPtr all;
  if (options.data.extension() == ".bin")
    all = std::make_shared<cohort::TokenDataset>(options.data, shape);
  else
    all = std::make_shared<cohort::TokenDataset>(
        tokenizer.encode(read_text(text_files(options.data))), shape);
  const auto validation = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(all->size()) * options.validation_share));
  if (all->size() - validation < 1)
    throw cohort::InvalidInput(
        fmt::format("the text has {} samples of {} tokens, one to train on and one to validate "
                    "with are needed",
                    all->size(), options.sequence),
        {.advice = "Give a longer text (--data), or a smaller --sequence."});
  return {part(all, 0, all->size() - validation), part(all, all->size() - validation, all->size())};
}

}  // namespace examples
