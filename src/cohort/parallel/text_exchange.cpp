#include "cohort/parallel/text_exchange.h"

#include <cstdint>
#include <span>

namespace cohort::parallel {

using collective::DataType;

std::vector<std::string> gather_texts(collective::Group& group, const std::string& mine,
                                      collective::CallOptions options) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(size);
  group.all_gather(&length, lengths.data(), 1, DataType::i64, options);
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  std::string all(total, '\0');
  group.all_gather_v(mine.data(), all.data(), counts, DataType::u8, options);
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

std::string broadcast_text(collective::Group& group, const std::string& mine, int root,
                           collective::CallOptions options) {
  auto length = static_cast<std::int64_t>(mine.size());
  group.broadcast(std::span(&length, 1), root, options);
  std::string text =
      group.rank() == root ? mine : std::string(static_cast<std::size_t>(length), '\0');
  group.broadcast(text.data(), text.size(), DataType::u8, root, options);
  return text;
}

}  // namespace cohort::parallel
