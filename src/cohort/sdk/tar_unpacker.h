#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort::sdk {

// Unpacks a tar archive (ustar, pax, GNU's long names) that comes in pieces, without trusting it:
// only files and folders are made, and only below the folder that is given, whatever names the
// archive holds and whatever links lie there. Links in the archive are left out and counted.
//
// Confined to one thread. Failure: InvalidInput for a broken archive or a name that leads out,
// SystemError; what was unpacked until then stays.
class TarUnpacker {
 public:
  // Makes the folder unless it is there.
  explicit TarUnpacker(const std::filesystem::path& folder);

  void feed(std::string_view bytes);
  // Throws InvalidInput unless the archive came to its end.
  void finish();

  // The files that were written, and their sizes.
  const std::map<std::string, std::uint64_t>& files() const { return files_; }
  std::uint64_t bytes() const { return bytes_; }
  int left_out() const { return left_out_; }

 private:
  void take_header(const char* block);
  void take_content(std::string_view bytes);
  void end_entry();
  void begin_file(const std::string& name, bool executable);
  UniqueFd open_folder(const std::string& path) const;

  std::filesystem::path path_;
  UniqueFd folder_;
  std::string block_;          // a header that is not whole yet
  std::uint64_t content_ = 0;  // bytes of the entry that are still to come
  std::uint64_t padding_ = 0;  // behind them
  enum class Into { nothing, file, pax, long_name } into_ = Into::nothing;
  UniqueFd file_;
  std::string name_;       // of the entry
  std::string text_;       // of a pax or long name entry
  std::string next_name_;  // what such an entry says about the next one
  std::string next_size_;
  int empty_blocks_ = 0;  // two of them end the archive
  std::map<std::string, std::uint64_t> files_;
  std::uint64_t bytes_ = 0;
  int left_out_ = 0;
};

}  // namespace cohort::sdk
