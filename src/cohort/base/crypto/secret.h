#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort {

// What the tasks of one job know and no other process: 32 random bytes. It travels by descriptor
// (COHORT_SECRET_FD, a sealed memfd) or by a file that only its owner reads (COHORT_SECRET_FILE),
// as 64 hexadecimal digits; never on a command line, never in the text of an error.
// A value, overwritten when destroyed. Thread-compatible.
class Secret {
 public:
  static constexpr std::size_t kSize = 32;

  static Secret generate();

  // Reads without moving the descriptor's position, so that any number of processes may share it.
  // Throws InvalidInput; the descriptor stays open.
  static Secret from_fd(int fd);

  // Throws InvalidInput when anyone but the owner may read or write the file, when it belongs to
  // neither this user nor root, or when it does not hold 64 hexadecimal digits.
  static Secret from_file(const std::filesystem::path& path);

  // As 64 hexadecimal digits. `source` is what an InvalidInput calls the place it came from.
  static Secret from_text(std::string_view text, const std::string& source);
  std::string to_text() const;  // for a pipe with one reader; wipe() what it returned

  // The values of COHORT_SECRET_FD and COHORT_SECRET_FILE; nothing when neither is set or both are
  // empty. The descriptor wins.
  static std::optional<Secret> from_variables(const std::optional<std::string>& fd,
                                              const std::optional<std::string>& file);

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  // A sealed memory file that from_fd() reads. Close-on-exec: the launcher of a task passes it on
  // with dup2().
  UniqueFd to_memfd() const;

  // Creates `path` with mode 0600 for from_file(). Throws SystemError, also when it exists.
  void write_file(const std::filesystem::path& path) const;

  // For use as a key. Valid as long as this object.
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;

 private:
  Secret() = default;

  std::array<std::uint8_t, kSize> bytes_{};
};

}  // namespace cohort
