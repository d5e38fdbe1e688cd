#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// The tar format: what is written is POSIX's (ustar, with pax records for long names); what is read
// is that and GNU's long names. Pure but for the callbacks.
namespace cohort::jobspec {

struct TarEntry {
  enum class Kind { file, folder, link, hard_link };
  Kind kind = Kind::file;
  std::string path;    // as the archive has it, without a '/' at its end
  std::string target;  // of a link
  std::uint64_t size = 0;
  bool executable = false;
};

inline constexpr std::size_t kTarBlock = 512;

// The header blocks of an entry; its bytes follow, then tar_padding() of them. Times and owners
// are 0.
std::string tar_header(const TarEntry& entry);
std::string tar_padding(std::uint64_t size);
std::string tar_end();

// Reads an archive from front to back. Confined to one thread.
class TarReader {
 public:
  // Fills the buffer; fewer bytes than asked for: the archive ends there.
  using Read = std::function<std::size_t(char* buffer, std::size_t size)>;

  explicit TarReader(Read read) : read_(std::move(read)) {}

  // The next entry; what is left of the one before is passed over. Nothing at the end. Throws
  // InvalidInput for what is no tar archive, and for devices, pipes and kinds that are not known.
  std::optional<TarEntry> next();
  // More of the entry's bytes; 0: that was all. Throws InvalidInput when the archive ends before.
  std::size_t read(char* buffer, std::size_t size);

 private:
  void read_whole(char* buffer, std::size_t size);
  std::string read_text(std::uint64_t size);
  void skip_rest();

  Read read_;
  std::uint64_t left_ = 0;     // bytes of the entry
  std::uint64_t padding_ = 0;  // behind them
};

}  // namespace cohort::jobspec
