#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cohort::train {

// A data file and how to get a good one: what every complaint about it says.
struct DataFile {
  std::filesystem::path path;
  std::string advice;  // "Get it with: scripts/get-data mnist DIR"

  // Throws InvalidInput: "'<path>': <problem>. <advice>".
  [[noreturn]] void refuse(std::string_view problem) const;
};

// The bytes of a file from its beginning, unpacked when they begin as gzip does (whatever the
// name). Confined to one thread. A file that is missing, unreadable, truncated or damaged is
// InvalidInput.
class DataReader {
 public:
  explicit DataReader(DataFile file);
  DataReader(DataReader&&) noexcept;
  DataReader& operator=(DataReader&&) noexcept;
  ~DataReader();

  const DataFile& file() const;
  bool compressed() const;
  // No file of this size unpacks to more: a header that promises more is refused before anything is
  // allocated for it. (Deflate packs at most 1032 to 1.)
  std::uint64_t most_bytes() const;

  // Fills `out`. `what` names what is read: "the header", "images".
  void read(std::span<std::uint8_t> out, std::string_view what);
  // Up to out.size() bytes; 0 only at the end.
  std::size_t read_some(std::span<std::uint8_t> out);
  // Throws when there is more, and for gzip checks its sums.
  void expect_end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::train
