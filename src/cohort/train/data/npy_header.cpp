#include "cohort/train/data/npy_header.h"

#include <algorithm>
#include <array>
#include <optional>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::train {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kNpyMagic = "\x93NUMPY"sv;
constexpr std::array kNpyTypes{"|b1"sv, "|u1"sv, "|i1"sv, "<u2"sv, "<i2"sv, "<u4"sv,
                               "<i4"sv, "<u8"sv, "<i8"sv, "<f2"sv, "<f4"sv, "<f8"sv};

// The value behind 'key': in the head's Python dictionary, up to its end or `until`.
std::optional<std::string_view> npy_value(std::string_view head, std::string_view key, char open,
                                          char close) {
  const std::size_t found = head.find(fmt::format("'{}'", key));
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = head.substr(found + key.size() + 2);
  const std::size_t begin = rest.find_first_not_of(": ");
  if (begin == std::string_view::npos || rest[begin] != open) return std::nullopt;
  rest.remove_prefix(begin + 1);
  const std::size_t end = rest.find(close);
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

}  // namespace

std::uint64_t NpyHeader::element_bytes() const {
  return static_cast<std::uint64_t>(type.at(2) - '0');
}

std::uint64_t NpyHeader::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

NpyHeader parse_npy_header(std::string_view bytes, std::uint64_t file_bytes,
                           const std::string& name) {
  const auto refuse = [&](const std::string& reason) {
    throw InvalidInput(fmt::format("'{}' is not a usable .npy file: {}", name, reason),
                       {.advice = "Write it with numpy.save(), in C order, of plain numbers."});
  };
  if (!bytes.starts_with(kNpyMagic) || bytes.size() < 10) refuse("it does not begin as one");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) refuse(fmt::format("it is of version {}", version));
  const std::size_t begin = version == 1 ? 10 : 12;
  if (bytes.size() < begin) refuse("it ends in its head");
  const std::uint64_t length =
      version == 1 ? get_integer<std::uint16_t>(&bytes[8]) : get_integer<std::uint32_t>(&bytes[8]);
  if (length > bytes.size() - begin)
    refuse(fmt::format("its head of {} bytes is longer than what is there", length));
  const std::string_view head = bytes.substr(begin, length);

  NpyHeader header{.type = {}, .shape = {}, .offset = begin + length};
  const auto type = npy_value(head, "descr", '\'', '\'');
  if (!type || std::find(kNpyTypes.begin(), kNpyTypes.end(), *type) == kNpyTypes.end())
    refuse(
        fmt::format("it has elements of type {}, which is not known here",
                    type ? fmt::format("'{}'", escape_controls(*type)) : "that is not one name"));
  header.type = *type;
  if (head.find("'fortran_order': False") == std::string_view::npos)
    refuse("it is in Fortran's order");
  const auto shape = npy_value(head, "shape", '(', ')');
  if (!shape) refuse("it says no shape");
  std::uint64_t count = header.element_bytes();
  bool empty = false;
  for (const std::string& part : split(*shape, ',')) {
    const std::string_view digits = trim(part);
    if (digits.empty()) continue;  // "(3,)"
    const auto extent = parse_unsigned(digits);
    if (!extent || *extent > INT64_MAX)
      refuse(fmt::format("it has '{}' in its shape", escape_controls(digits)));
    header.shape.push_back(static_cast<std::int64_t>(*extent));
    empty = empty || *extent == 0;
  }
  for (const std::int64_t extent : header.shape)
    if (!empty && __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count))
      refuse("its shape has more elements than a file can");
  if (empty) count = 0;
  if (count != file_bytes - header.offset)
    refuse(
        fmt::format("its shape takes {} bytes, {} are there", count, file_bytes - header.offset));
  return header;
}

}  // namespace cohort::train
