#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

// A program's folder as one file, named by its content: a gzipped tar whose SHA-256 is its id. What
// packs and unpacks here reads and is read by GNU tar and Python's tarfile. Functions without
// state, for any thread.
namespace cohort::jobspec {

struct PackedSource {
  std::string archive;  // the bytes of the tar.gz
  std::string id;       // their SHA-256, 64 hexadecimal digits
  std::size_t files = 0;
};

struct SourceLimits {
  std::size_t most_files = 100'000;
  std::uint64_t most_bytes = std::uint64_t{2} << 30;           // unpacked
  std::uint64_t most_packed_bytes = std::uint64_t{512} << 20;  // of the archive
};

// The same content gives the same archive: entries are sorted and have neither times nor owners;
// of the permissions only the owner's right to execute counts. Left out are .git, __pycache__,
// .venv and what the file .cohortignore of the folder says (ignore_rules.h). Throws InvalidInput
// for a folder that is not there, too large, or holds what is no file, folder or link inside it;
// SystemError where it cannot be read.
PackedSource pack_source(const std::filesystem::path& folder, const SourceLimits& limits = {});

// The folder SOURCES/ID with what the archive holds, read-only. Made once, also when several
// processes want it at the same time: who comes later finds it. Throws InvalidInput for an archive
// whose SHA-256 is not `id`, that is broken or too large, or that holds absolute paths, `..`, links
// that lead out of it, or devices; nothing is left of it then.
std::filesystem::path unpack_source(const std::filesystem::path& archive, const std::string& id,
                                    const std::filesystem::path& sources,
                                    const SourceLimits& limits = {});

// 64 lower-case hexadecimal digits.
bool is_source_id(std::string_view text);

}  // namespace cohort::jobspec
