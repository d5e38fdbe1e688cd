#include "cohort/report/event_reader.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "cohort/base/data/byte_io.h"
#include "cohort/report/event_record.h"
#include "cohort/report/file_part.h"
#include "cohort/report/proto_reader.h"

namespace cohort::report {
namespace {

constexpr std::size_t kHead = 12;  // length and its checksum
constexpr std::size_t kTail = 4;
constexpr std::size_t kMostData = std::size_t{1} << 20;

bool is_scalar_shape(std::string_view shape) {
  for (ProtoReader field(shape); field.next();)
    if (field.is(kShapeDimension)) return false;
  return true;
}

std::optional<double> number_from(std::string_view content, std::uint64_t type) {
  if (type == kTypeFloat && content.size() == 4)
    return std::bit_cast<float>(get_integer<std::uint32_t>(content.data()));
  if (type == kTypeDouble && content.size() == 8)
    return std::bit_cast<double>(get_integer<std::uint64_t>(content.data()));
  if (type == kTypeInt32 && content.size() == 4)
    return static_cast<std::int32_t>(get_integer<std::uint32_t>(content.data()));
  if (type == kTypeInt64 && content.size() == 8)
    return static_cast<double>(
        static_cast<std::int64_t>(get_integer<std::uint64_t>(content.data())));
  return std::nullopt;
}

// The one number of a field that holds several, packed or not.
std::optional<double> number_of(const ProtoReader& field, std::uint64_t type) {
  if (type == kTypeFloat || type == kTypeDouble)
    return field.bytes().empty() ? field.number() : number_from(field.bytes(), type);
  // Whole numbers are packed as a message without keys: read with one before them.
  const std::string with_key = std::string("\x08") + std::string(field.bytes());
  ProtoReader packed(with_key);
  const bool is_packed = !field.bytes().empty() && packed.next();
  return static_cast<double>(
      static_cast<std::int64_t>(is_packed ? packed.integer() : field.integer()));
}

std::optional<double> scalar_of_tensor(std::string_view tensor) {
  std::uint64_t type = 0;
  std::optional<double> value;
  for (ProtoReader field(tensor); field.next();)
    if (field.is(kTensorType)) type = field.integer();
  for (ProtoReader field(tensor); field.next();) {
    if (field.is(kTensorShape) && !is_scalar_shape(field.bytes())) return std::nullopt;
    if (field.is(kTensorContent)) value = number_from(field.bytes(), type);
    if ((field.is(kTensorFloat) && type == kTypeFloat) ||
        (field.is(kTensorDouble) && type == kTypeDouble) ||
        (field.is(kTensorInt32) && type == kTypeInt32) ||
        (field.is(kTensorInt64) && type == kTypeInt64))
      value = number_of(field, type);
  }
  return value;
}

void add_value(std::string_view value, const ScalarEvent& event, EventPart& part) {
  std::string tag;
  std::optional<double> number;
  for (ProtoReader field(value); field.next();) {
    if (field.is(kValueTag)) tag = field.bytes();
    if (field.is(kValueSimple)) number = field.number();
    if (field.is(kValueTensor)) number = scalar_of_tensor(field.bytes());
  }
  if (!number || tag.empty()) return;
  part.scalars.push_back(
      {.tag = std::move(tag), .step = event.step, .value = *number, .time = event.time});
}

void add_event(std::string_view data, EventPart& part) {
  ScalarEvent event;
  for (ProtoReader field(data); field.next();) {
    if (field.is(kEventTime)) event.time = field.number();
    if (field.is(kEventStep)) event.step = static_cast<std::int64_t>(field.integer());
  }
  for (ProtoReader field(data); field.next();)
    if (field.is(kEventSummary))
      for (ProtoReader value(field.bytes()); value.next();)
        if (value.is(kSummaryValue)) add_value(value.bytes(), event, part);
}

}  // namespace

EventPart read_events(const std::filesystem::path& path, std::uint64_t offset,
                      std::size_t most_bytes) {
  EventPart part{.scalars = {}, .next = offset};
  const auto [buffer, size] = read_file_part(path, offset, std::max(most_bytes, 2 * kMostData));
  std::string_view rest = buffer;
  while (rest.size() >= kHead && part.next - offset < most_bytes) {
    const auto length = get_integer<std::uint64_t>(rest.data());
    if (get_integer<std::uint32_t>(rest.data() + 8) != masked_crc(rest.substr(0, 8))) {
      part.damaged = true;
      return part;
    }
    if (length > size || part.next + kHead + length + kTail > size) return part;  // half of it
    const std::uint64_t whole = kHead + length + kTail;
    if (length <= kMostData) {
      if (whole > rest.size()) break;  // whole in the file, not in the buffer
      const auto data = rest.substr(kHead, length);
      if (get_integer<std::uint32_t>(rest.data() + kHead + length) == masked_crc(data))
        add_event(data, part);
    }
    part.next += whole;
    rest.remove_prefix(std::min<std::uint64_t>(whole, rest.size()));
  }
  part.more = part.next > offset && part.next + kHead <= size;
  return part;
}

}  // namespace cohort::report
