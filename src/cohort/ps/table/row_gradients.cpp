#include "cohort/ps/table/row_gradients.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "cohort/base/error.h"

static_assert(std::endian::native == std::endian::little);

namespace cohort::ps {
namespace {

struct Source {
  std::uint64_t key;
  std::size_t contribution;
  std::size_t row;
  auto operator<=>(const Source&) const = default;
};

}  // namespace

std::string RowGradients::encode() const {
  std::uint64_t count = keys.size();
  const std::size_t key_bytes = keys.size() * sizeof(std::uint64_t);
  const std::size_t value_bytes = values.size() * sizeof(float);
  std::string out(sizeof count + key_bytes + value_bytes, '\0');
  std::memcpy(out.data(), &count, sizeof count);
  if (key_bytes > 0) std::memcpy(out.data() + sizeof count, keys.data(), key_bytes);
  if (value_bytes > 0)
    std::memcpy(out.data() + sizeof count + key_bytes, values.data(), value_bytes);
  return out;
}

RowGradients RowGradients::decode(std::span<const std::byte> bytes, int dimension) {
  std::uint64_t count = 0;
  if (bytes.size() < sizeof count) throw ProtocolError("gradients of rows end too early");
  std::memcpy(&count, bytes.data(), sizeof count);
  bytes = bytes.subspan(sizeof count);
  const std::uint64_t row_bytes = sizeof(std::uint64_t) + sizeof(float) * std::uint64_t(dimension);
  if (count != bytes.size() / row_bytes || bytes.size() % row_bytes != 0)
    throw ProtocolError(fmt::format("gradients of {} rows of {} floats in {} bytes", count,
                                    dimension, bytes.size()));
  RowGradients rows;
  rows.keys.resize(count);
  rows.values.resize(count * std::uint64_t(dimension));
  if (count == 0) return rows;
  const std::size_t key_bytes = count * sizeof(std::uint64_t);
  std::memcpy(rows.keys.data(), bytes.data(), key_bytes);
  std::memcpy(rows.values.data(), bytes.data() + key_bytes, bytes.size() - key_bytes);
  return rows;
}

RowGradients merge(std::span<const RowGradients* const> contributions, int dimension,
                   double scale) {
  const auto width = static_cast<std::size_t>(dimension);
  std::vector<Source> sources;
  std::size_t total = 0;
  for (const RowGradients* contribution : contributions) total += contribution->keys.size();
  sources.reserve(total);
  for (std::size_t i = 0; i < contributions.size(); ++i)
    for (std::size_t row = 0; row < contributions[i]->keys.size(); ++row)
      sources.push_back({contributions[i]->keys[row], i, row});
  if (!std::is_sorted(sources.begin(), sources.end())) std::sort(sources.begin(), sources.end());

  RowGradients merged;
  merged.keys.reserve(total);
  merged.values.reserve(total * width);
  for (const Source& source : sources) {
    const float* from = contributions[source.contribution]->values.data() + source.row * width;
    if (!merged.keys.empty() && merged.keys.back() == source.key) {
      float* sum = merged.values.data() + merged.values.size() - width;
      for (std::size_t i = 0; i < width; ++i) sum[i] += from[i];
    } else {
      merged.keys.push_back(source.key);
      merged.values.insert(merged.values.end(), from, from + width);
    }
  }
  const auto factor = static_cast<float>(scale);
  if (factor != 1)
    for (float& value : merged.values) value *= factor;
  return merged;
}

}  // namespace cohort::ps
