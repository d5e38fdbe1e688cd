#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace cohort {

// The whole file. Throws SystemError that names the path.
std::string read_file(const std::filesystem::path& path);

// Replaces `path` in one step (temporary file in the same folder, rename): a reader sees the old
// text or the new one, never half of it. Throws SystemError; the old file is then unchanged and the
// temporary one is gone. `mode`: of the new file, less the umask. Follows no symbolic links that
// others may have put there. Several threads and processes may write the same path at once: one of
// them is the last.
void write_file_atomically(const std::filesystem::path& path, std::string_view text,
                           mode_t mode = 0644);

// 2026-01-31T12:34:56.789Z, now.
std::string utc_timestamp();

}  // namespace cohort
