#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace cohort::report {

struct FilePart {
  std::string bytes;
  std::uint64_t size = 0;  // of the whole file, before it was read
};

// At most so many bytes of a file that another program may be writing, fewer at its end. What is
// not there, a symbolic link, and what is no regular file have none: nothing waits. Throws
// SystemError. No state; any thread.
FilePart read_file_part(const std::filesystem::path& path, std::uint64_t offset,
                        std::size_t most_bytes);

}  // namespace cohort::report
