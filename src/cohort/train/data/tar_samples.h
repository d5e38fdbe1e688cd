#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cohort::train {

// A regular file in a tar archive: where its bytes lie.
struct TarMember {
  std::string name;
  std::uint64_t header = 0;  // offset of its header
  std::uint64_t offset = 0;  // of its bytes
  std::uint64_t bytes = 0;
};

// The regular files of an archive: ustar, GNU's long names and large sizes, pax paths and sizes.
// Reads headers only. InvalidInput names the offset of what is damaged, cut off, compressed or not
// known here.
std::vector<TarMember> read_tar_index(const std::filesystem::path& path);

// One sample: the files of an archive that have a name in common and lie side by side.
struct TarSample {
  std::string key;                           // "images/0001": the name up to its first dot
  std::map<std::string, std::string> files;  // contents by the rest: "png", "cls", "seg.npy"
  std::string origin;                        // "'train-000.tar', sample 'images/0001' at 1024"

  // InvalidInput names the sample and what it has where there is none.
  const std::string& file(const std::string& extension) const;
};

// Samples in archives as WebDataset has them, in the archives' order. Names only group: nothing is
// unpacked, no path is opened. Directories, links, and files without a dot are passed over.
//
// The index is made once, by reading the headers of all archives; a sample is read by its offset
// (pread). Thread-safe: all methods are const.
// InvalidInput for archives that cannot be read, a sample with two files of one extension, and an
// archive that has become shorter since.
class TarSamples {
 public:
  explicit TarSamples(const std::vector<std::filesystem::path>& archives);
  TarSamples(TarSamples&&) noexcept;
  ~TarSamples();

  std::int64_t size() const;
  TarSample read(std::int64_t index) const;

 private:
  struct Content;
  std::unique_ptr<const Content> content_;
};

}  // namespace cohort::train
