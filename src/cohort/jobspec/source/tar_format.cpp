#include "cohort/jobspec/source/tar_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

// Offsets and lengths of the fields of a header.
struct Field {
  std::size_t offset, length;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kKind{156, 1}, kLinkName{157, 100}, kMagic{257, 8},
    kPrefix{345, 155};
constexpr std::uint64_t kLongestName = 64 * 1024;

using Block = std::array<char, kTarBlock>;

void put(Block& block, Field field, std::string_view text) {
  text.copy(block.data() + field.offset, field.length);
}

void put_octal(Block& block, Field field, std::uint64_t value) {
  put(block, field, fmt::format("{:0{}o}", value, field.length - 1));
}

unsigned checksum(Block block) {
  std::fill_n(block.begin() + kChecksum.offset, kChecksum.length, ' ');
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  return sum;
}

std::string header_block(char kind, std::string_view name, std::string_view target,
                         std::uint64_t size, bool executable) {
  Block block{};
  put(block, kName, name.substr(0, kName.length));
  put_octal(block, kMode, executable ? 0755 : 0644);
  put_octal(block, kUser, 0);
  put_octal(block, kGroup, 0);
  put_octal(block, kSize, size);
  put_octal(block, kTime, 0);
  block[kKind.offset] = kind;
  put(block, kLinkName, target.substr(0, kLinkName.length));
  put(block, kMagic, std::string_view("ustar\00000", 8));
  put(block, kChecksum, fmt::format("{:06o}", checksum(block)));
  block[kChecksum.offset + 7] = ' ';
  return {block.begin(), block.end()};
}

// "LENGTH key=value\n", where LENGTH counts itself.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;  // " ", "=", end of line
  std::size_t length = 0, next = rest;
  while (next != length) {
    length = next;
    next = rest + std::to_string(length).size();
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

std::string_view text_of(const Block& block, Field field) {
  const std::string_view whole(block.data() + field.offset, field.length);
  return whole.substr(0, whole.find('\0'));
}

std::uint64_t number_of(const Block& block, Field field) {
  if (static_cast<unsigned char>(block[field.offset]) & 0x80)
    throw InvalidInput("the archive holds a file that is too large");
  std::uint64_t value = 0;
  for (const char digit : trim(text_of(block, field))) {
    if (digit < '0' || digit > '7' || value >> 60)
      throw InvalidInput("the archive has a header with a broken number");
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

std::map<std::string, std::string> pax_records(std::string_view text) {
  std::map<std::string, std::string> records;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const auto length = parse_unsigned(text.substr(0, space));
    if (space == std::string_view::npos || !length || *length <= space + 1 || *length > text.size())
      throw InvalidInput("the archive has a broken extended header");
    const std::string_view record = text.substr(space + 1, *length - space - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos)
      throw InvalidInput("the archive has a broken extended header");
    records[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    text.remove_prefix(*length);
  }
  return records;
}

std::string path_of(const Block& block) {
  const std::string name(text_of(block, kName));
  const bool is_posix =
      std::string_view(block.data() + kMagic.offset, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = is_posix ? text_of(block, kPrefix) : std::string_view();
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

TarEntry::Kind kind_of(char letter, const std::string& path) {
  switch (letter) {
    case '\0':
    case '0':
    case '7':
      return TarEntry::Kind::file;
    case '1':
      return TarEntry::Kind::hard_link;
    case '2':
      return TarEntry::Kind::link;
    case '5':
      return TarEntry::Kind::folder;
    default:
      throw InvalidInput(fmt::format("the archive's '{}' is no file, folder or link (kind '{}')",
                                     escape_controls(path), escape_controls({&letter, 1})),
                         {.advice = "Pack files, folders and links only."});
  }
}

}  // namespace

std::string tar_header(const TarEntry& entry) {
  std::string records, header;
  if (entry.path.size() > kName.length) records += pax_record("path", entry.path);
  if (entry.target.size() > kLinkName.length) records += pax_record("linkpath", entry.target);
  if (!records.empty())
    header = header_block('x', "pax_header", "", records.size(), false) + records +
             tar_padding(records.size());
  constexpr std::string_view kLetters = "0521";
  const char letter = kLetters[static_cast<std::size_t>(entry.kind)];
  const bool executable = entry.executable || entry.kind == TarEntry::Kind::folder;
  return header + header_block(letter, entry.path, entry.target, entry.size, executable);
}

std::string tar_padding(std::uint64_t size) {
  return std::string((kTarBlock - size % kTarBlock) % kTarBlock, '\0');
}

std::string tar_end() { return std::string(2 * kTarBlock, '\0'); }

std::optional<TarEntry> TarReader::next() {
  std::map<std::string, std::string> records;  // for the next entry alone
  while (true) {
    skip_rest();
    Block block;
    if (read_(block.data(), block.size()) < block.size()) return std::nullopt;
    if (std::all_of(block.begin(), block.end(), [](char byte) { return byte == 0; }))
      return std::nullopt;
    if (number_of(block, kChecksum) != checksum(block))
      throw InvalidInput("the file is no tar archive, or broken: a header's checksum is wrong");
    std::uint64_t size = number_of(block, kSize);
    const char letter = block[kKind.offset];
    if (letter == 'g' || letter == 'x' || letter == 'L' || letter == 'K') {
      const std::string text = read_text(size);
      if (letter == 'x') records.merge(pax_records(text));
      if (letter == 'L') records["path"] = text.substr(0, text.find('\0'));
      if (letter == 'K') records["linkpath"] = text.substr(0, text.find('\0'));
      continue;
    }
    if (records.contains("size")) {  // of 8 GiB and more
      const auto large = parse_unsigned(records["size"]);
      if (!large) throw InvalidInput("the archive has a broken extended header");
      size = *large;
    }
    TarEntry entry{.path = records.contains("path") ? records["path"] : path_of(block),
                   .target = records.contains("linkpath") ? records["linkpath"]
                                                          : std::string(text_of(block, kLinkName)),
                   .executable = (number_of(block, kMode) & 0100) != 0};
    while (entry.path.size() > 1 && entry.path.ends_with('/')) entry.path.pop_back();
    entry.kind = kind_of(letter, entry.path);
    if (entry.kind == TarEntry::Kind::file) entry.size = size;
    left_ = entry.size;
    padding_ = tar_padding(left_).size();
    return entry;
  }
}

std::size_t TarReader::read(char* buffer, std::size_t size) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(size, left_));
  read_whole(buffer, count);
  left_ -= count;
  return count;
}

void TarReader::read_whole(char* buffer, std::size_t size) {
  if (read_(buffer, size) < size) throw InvalidInput("the archive ends in the middle of an entry");
}

std::string TarReader::read_text(std::uint64_t size) {
  if (size > kLongestName) throw InvalidInput("the archive has a name that is too long");
  std::string text(size, '\0');
  read_whole(text.data(), text.size());
  std::string padding = tar_padding(size);
  read_whole(padding.data(), padding.size());
  return text;
}

void TarReader::skip_rest() {
  std::array<char, 16 * 1024> buffer;
  left_ += std::exchange(padding_, 0);
  while (left_ > 0) read(buffer.data(), buffer.size());
}

}  // namespace cohort::jobspec
