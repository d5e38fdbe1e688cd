#include "cohort/jobspec/instance_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <vector>

#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;
constexpr double kMostBytes = 1e18;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// A number without a sign that `text` begins with; it is taken off.
std::optional<double> take_number(std::string_view& text) {
  const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + end, number);
  if (end == 0 || result.ec != std::errc() || result.ptr != text.data() + end) return std::nullopt;
  text.remove_prefix(end);
  return number;
}

std::optional<std::uint64_t> unit_of(std::string_view text) {
  const std::string unit = lower(text);
  if (unit.empty() || unit == "b") return 1;
  static constexpr std::pair<char, std::uint64_t> kUnits[] = {
      {'k', kKiB}, {'m', kMiB}, {'g', kGiB}, {'t', kTiB}};
  for (const auto& [letter, bytes] : kUnits)
    if (unit.front() == letter &&
        (unit.size() == 1 || unit.substr(1) == "b" || unit.substr(1) == "ib"))
      return bytes;
  return std::nullopt;
}

// "2xlarge40" -> 8 cores, 40 GiB; "small2" -> 1 core, 2 GiB.
std::optional<Size> parse_size_word(std::string_view text) {
  const auto digits = parse_unsigned(text.substr(0, text.find_first_not_of("0123456789")));
  const std::string_view rest =
      text.substr(std::min(text.find_first_not_of("0123456789"), text.size()));
  static constexpr std::pair<std::string_view, int> kWords[] = {
      {"small", 1}, {"medium", 2}, {"large", 4}, {"xlarge", 4}};
  for (const auto& [word, cores] : kWords) {
    if (!rest.starts_with(word)) continue;
    const auto memory = parse_unsigned(rest.substr(word.size()));
    if (!memory || *memory == 0 || *memory > 65536 || digits.value_or(1) > 1000) continue;
    return Size{.cores = static_cast<double>(cores * digits.value_or(1)),
                .memory_bytes = *memory * kGiB};
  }
  return std::nullopt;
}

// "1core2g" -> 1 core, 2 GiB.
std::optional<Size> parse_core_suffix(std::string_view text) {
  const auto cores = take_number(text);
  if (!cores || *cores <= 0 || !text.starts_with("core")) return std::nullopt;
  const auto memory = parse_memory(text.substr(4));
  if (!memory || *memory == 0) return std::nullopt;
  return Size{.cores = *cores, .memory_bytes = *memory};
}

}  // namespace

std::optional<std::uint64_t> parse_memory(std::string_view text) {
  text = trim(text);
  if (const auto bytes = parse_unsigned(text)) return bytes;
  const auto number = take_number(text);
  const auto unit = unit_of(trim(text));
  if (!number || !unit || *number * static_cast<double>(*unit) > kMostBytes) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(*number * static_cast<double>(*unit)));
}

std::optional<Size> parse_own_size(std::string_view name) {
  const auto parts = split(lower(name), 'x');
  if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
  std::string_view cores_text = parts[0];
  const auto cores = take_number(cores_text);
  const auto memory = parse_memory(parts[1]);
  const auto gpus = parts.size() == 3 ? parse_unsigned(parts[2]) : 0;
  if (!cores || !cores_text.empty() || *cores <= 0 || !memory || *memory < kMiB || !gpus ||
      *gpus > 1024)
    return std::nullopt;
  return Size{.cores = *cores, .memory_bytes = *memory, .gpus = static_cast<int>(*gpus)};
}

std::optional<Size> parse_ti_name(std::string_view name) {
  const auto parts = split(lower(name), '.');
  if (parts.size() < 3 || parts.size() > 4 || parts[0] != "ti") return std::nullopt;
  const auto machine = parse_size_word(parts[parts.size() - 2]);
  if (!machine) return std::nullopt;
  const std::string& suffix = parts.back();
  if (const auto size = parse_core_suffix(suffix)) return size;
  const auto times = suffix.find('x');  // "1xv100"
  const auto gpus = parse_unsigned(suffix.substr(0, times));
  if (times == std::string::npos || times + 1 == suffix.size() || !gpus || *gpus == 0 ||
      *gpus > 1024)
    return std::nullopt;
  return Size{.cores = machine->cores,
              .memory_bytes = machine->memory_bytes,
              .gpus = static_cast<int>(*gpus)};
}

std::string memory_text(std::uint64_t bytes) {
  static constexpr std::pair<std::uint64_t, const char*> kNames[] = {
      {kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [unit, name] : kNames)
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
  return fmt::format("{}", bytes);
}

std::string to_words(const Size& size) {
  std::vector<std::string> parts = {
      fmt::format("{:.3g} core{}", size.cores, size.cores == 1 ? "" : "s")};
  if (size.memory_bytes > 0)
    parts.push_back(
        fmt::format("{:.3g} GiB", static_cast<double>(size.memory_bytes) / double{kGiB}));
  parts.push_back(size.gpus == 0 ? "no GPU"
                                 : fmt::format("{} GPU{}", size.gpus, size.gpus == 1 ? "" : "s"));
  const std::string last = parts.back();
  parts.pop_back();
  return join(parts, ", ") + " and " + last;
}

}  // namespace cohort::jobspec
