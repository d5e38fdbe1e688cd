#include "cohort/train/checkpoint/safetensors_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::train {
namespace {

using nlohmann::json;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::uint64_t size;
};
constexpr std::array<DtypeRow, 10> kDtypes{{{Dtype::f64, "F64", 8},
                                            {Dtype::i64, "I64", 8},
                                            {Dtype::f32, "F32", 4},
                                            {Dtype::i32, "I32", 4},
                                            {Dtype::f16, "F16", 2},
                                            {Dtype::bf16, "BF16", 2},
                                            {Dtype::i16, "I16", 2},
                                            {Dtype::i8, "I8", 1},
                                            {Dtype::u8, "U8", 1},
                                            {Dtype::boolean, "BOOL", 1}}};
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr int kMaxDepth = 3;

const DtypeRow& row_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

// Names the file, and the tensor once one is known, in front of every complaint.
class Complaint {
 public:
  explicit Complaint(const std::string& file) : file_(file) {}

  [[noreturn]] void file(const std::string& reason) const {
    throw InvalidInput(fmt::format("'{}' is not a usable safetensors file: {}", file_, reason));
  }
  [[noreturn]] void tensor(std::string_view name, const std::string& reason) const {
    file(fmt::format("tensor '{}' {}", name, reason));
  }

 private:
  const std::string& file_;
};

// JSON as the format allows it: no name twice, nothing deep.
json parse_json(std::string_view header, const Complaint& complain) {
  std::vector<std::set<std::string>> names;
  auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth) complain.file("its header nests too deep");
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names.back().insert(name).second)
        complain.file(fmt::format("its header has the name '{}' twice", name));
    }
    return true;
  };
  try {
    return json::parse(header, check);
  } catch (const json::exception& error) {
    complain.file(fmt::format("its header is not JSON ({})", error.what()));
  }
}

Metadata parse_metadata(const json& value, const Complaint& complain) {
  if (!value.is_object()) complain.file("its __metadata__ is not an object");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) complain.file(fmt::format("its __metadata__ '{}' is not text", key));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

const json& member(const json& value, std::string_view tensor, const char* name,
                   const Complaint& complain) {
  auto found = value.find(name);
  if (found == value.end()) complain.tensor(tensor, fmt::format("has no {}", name));
  return *found;
}

// Where the digits of the header's checksum stand in its text; npos: nowhere.
std::size_t find_header_checksum(std::string_view header) {
  const std::string key = fmt::format("\"{}\":\"", kHeaderChecksum);
  const std::size_t found = header.find(key);
  if (found == std::string_view::npos) return found;
  const std::size_t digits = found + key.size();
  return header.size() - digits < kNoChecksum.size() ? std::string_view::npos : digits;
}

std::string header_checksum(std::string_view header, std::size_t digits) {
  std::string text(header);
  text.replace(digits, kNoChecksum.size(), kNoChecksum);
  return checksum_text(crc32c(text.data(), text.size()));
}

// One flipped bit of a header may give a tensor another name, or hide its checksum.
void check_checksums(Layout& layout, std::string_view header, const Complaint& complain) {
  const bool is_checked = layout.metadata.erase(std::string(kHeaderIsChecked)) > 0;
  const auto own = layout.metadata.find(std::string(kHeaderChecksum));
  if (own == layout.metadata.end()) {
    if (is_checked) complain.file("it is damaged: its header has lost its checksum");
    return;  // of another program, or of an earlier version
  }
  const std::size_t digits = find_header_checksum(header);
  if (digits == std::string_view::npos || own->second != header_checksum(header, digits))
    complain.file("it is damaged: its header does not match its checksum");
  layout.metadata.erase(own);
  for (const TensorEntry& entry : layout.tensors)
    if (!layout.metadata.contains(std::string(kChecksumPrefix) + entry.name))
      complain.tensor(entry.name, "has no checksum, and the file has checksums");
}

TensorEntry parse_tensor(const std::string& name, const json& value, std::uint64_t data_bytes,
                         const Complaint& complain) {
  if (!value.is_object()) complain.tensor(name, "is not described by an object");
  if (value.size() != 3)
    complain.tensor(name, "is not described by exactly dtype, shape and data_offsets");
  TensorEntry entry{.name = name};

  const json& dtype = member(value, name, "dtype", complain);
  if (!dtype.is_string()) complain.tensor(name, "has a dtype that is not text");
  auto row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& known) {
    return known.name == dtype.get_ref<const std::string&>();
  });
  if (row == kDtypes.end())
    complain.tensor(name, fmt::format("has dtype {}, which is not known here", dtype.dump()));
  entry.dtype = row->dtype;

  const json& shape = member(value, name, "shape", complain);
  if (!shape.is_array()) complain.tensor(name, "has a shape that is not a list");
  std::uint64_t bytes = row->size;
  bool empty = false;
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > INT64_MAX)
      complain.tensor(name, fmt::format("has {} in its shape", extent.dump()));
    entry.shape.push_back(extent.get<std::int64_t>());
    empty |= entry.shape.back() == 0;
  }
  for (auto extent : entry.shape)
    if (!empty && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      complain.tensor(name, fmt::format("has the impossible shape {}", shape_text(entry.shape)));
  if (empty) bytes = 0;

  const json& offsets = member(value, name, "data_offsets", complain);
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    complain.tensor(name, "has data_offsets that are not two positions");
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes)
    complain.tensor(name, fmt::format("lies at [{}, {}), but the file holds {} bytes of data",
                                      entry.begin, entry.end, data_bytes));
  if (entry.end - entry.begin != bytes)
    complain.tensor(
        name, fmt::format("has {} bytes, but shape {} of {} takes {}", entry.end - entry.begin,
                          shape_text(entry.shape), row->name, bytes));
  return entry;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }
std::uint64_t size_of(Dtype dtype) { return row_of(dtype).size; }

std::string checksum_text(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::uint64_t parse_header_length(std::string_view first_bytes, std::uint64_t file_bytes,
                                  const std::string& file) {
  const Complaint complain(file);
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes)
    complain.file(fmt::format("it has {} bytes, fewer than the 8 of a header's length",
                              std::min<std::uint64_t>(file_bytes, first_bytes.size())));
  const auto length = get_integer<std::uint64_t>(first_bytes.data());
  if (length > kMaxHeaderBytes)
    complain.file(fmt::format("its first 8 bytes announce a header of {} bytes; at most {} allowed",
                              length, kMaxHeaderBytes));
  if (length > file_bytes - kLengthBytes)
    complain.file(fmt::format("its header of {} bytes goes past the file's end at {} bytes", length,
                              file_bytes));
  return length;
}

Layout parse_header(std::string_view header, std::uint64_t data_bytes, const std::string& file) {
  const Complaint complain(file);
  if (header.empty() || header.front() != '{') complain.file("its header does not begin with '{'");
  const json value = parse_json(header, complain);
  Layout layout;
  for (const auto& [name, description] : value.items()) {
    if (name == kMetadataKey)
      layout.metadata = parse_metadata(description, complain);
    else
      layout.tensors.push_back(parse_tensor(name, description, data_bytes, complain));
  }
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::uint64_t at = 0;
  for (const TensorEntry& entry : layout.tensors) {
    if (entry.begin != at)
      complain.tensor(entry.name, fmt::format("begins at {}, but the one before it ends at {}",
                                              entry.begin, at));
    at = entry.end;
  }
  if (at != data_bytes)
    complain.file(
        fmt::format("its tensors end at {}, but it holds {} bytes of data", at, data_bytes));
  check_checksums(layout, header, complain);
  return layout;
}

void check_booleans(const TensorEntry& entry, std::string_view bytes, const std::string& file) {
  if (entry.dtype != Dtype::boolean) return;
  const auto found = std::find_if(bytes.begin(), bytes.end(),
                                  [](char byte) { return static_cast<unsigned char>(byte) > 1; });
  if (found != bytes.end())
    Complaint(file).tensor(entry.name,
                           fmt::format("is BOOL, but has the byte {:#04x} at {}",
                                       static_cast<unsigned char>(*found), found - bytes.begin()));
}

void arrange(Layout& layout) {
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              const auto size_a = size_of(a.dtype), size_b = size_of(b.dtype);
              return size_a != size_b ? size_a > size_b : a.name < b.name;
            });
  std::uint64_t at = 0;
  for (TensorEntry& entry : layout.tensors) {
    std::uint64_t bytes = size_of(entry.dtype);
    for (auto extent : entry.shape) bytes *= static_cast<std::uint64_t>(extent);
    entry.begin = at;
    entry.end = at += bytes;
  }
}

std::string encode_header(const Layout& layout) {
  std::string text = "{";
  auto add = [&](std::string_view name, const json& value) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", json(name).dump(), value.dump());
  };
  try {
    if (!layout.metadata.empty()) add(kMetadataKey, layout.metadata);
    for (const TensorEntry& entry : layout.tensors) {
      if (entry.name == kMetadataKey)
        throw InvalidInput(fmt::format("no tensor can be called '{}'", kMetadataKey));
      add(entry.name, {{"dtype", name_of(entry.dtype)},
                       {"shape", entry.shape},
                       {"data_offsets", {entry.begin, entry.end}}});
    }
  } catch (const json::exception& error) {
    throw InvalidInput(fmt::format("a tensor's name is not UTF-8 text ({})", error.what()));
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw InvalidInput(
        fmt::format("the names and shapes of {} tensors take {} bytes; at most {} "
                    "allowed in a safetensors file",
                    layout.tensors.size(), text.size(), kMaxHeaderBytes));
  if (layout.metadata.contains(std::string(kHeaderChecksum))) {
    const std::size_t digits = find_header_checksum(text);
    COHORT_CHECK(digits != std::string::npos, "the header has no place for its checksum");
    text.replace(digits, kNoChecksum.size(), header_checksum(text, digits));
  }
  std::string bytes(kLengthBytes, '\0');
  put_integer(static_cast<std::uint64_t>(text.size()), bytes.data());
  return bytes + text;
}

}  // namespace cohort::train
