#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace cohort {

// Folders and files that decide what this process does: a job's output folder, its records. They
// are trusted only where no user but the caller and root could have put something into them: they
// belong to one of the two, and neither their group nor others may write to them. (A sticky bit
// does not help: others could still make files under names that the caller is about to use.)
// Folders above them are not looked at.
//
// Failure of all: InvalidInput that names path, owner or mode, and says what to do; SystemError
// where the system refuses.

// Makes the folder, and those above it, unless it is there; then require_own_folder().
void make_own_folder(const std::filesystem::path& path);

// A symbolic link is followed if it is the caller's or root's own.
void require_own_folder(const std::filesystem::path& path);

// The whole of a regular file, which is no symbolic link. Never waits, as the writer of a FIFO
// could make it; reads at most `most_bytes`.
std::string read_own_file(const std::filesystem::path& path, std::size_t most_bytes);

}  // namespace cohort
