#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cohort::jobspec {

// Compresses bytes that come in portions. The same bytes give the same archive: it has no time and
// no name. Confined to one thread.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();

  void write(std::string_view bytes);
  std::size_t size() const { return packed_.size(); }  // so far
  std::string finish();                                // all of it; call once

 private:
  struct Stream;
  void deflate_all(int flush);

  std::unique_ptr<Stream> stream_;
  std::string packed_;
};

// The bytes of a gzip file, which may have several members. Confined to one thread.
class GzipReader {
 public:
  // `read` fills a buffer with packed bytes; 0: there are no more.
  using Read = std::function<std::size_t(char* buffer, std::size_t size)>;

  explicit GzipReader(Read read);
  ~GzipReader();

  // Fewer bytes than asked for: that was all. Throws InvalidInput for what is no gzip file, is
  // broken, or ends too early.
  std::size_t read(char* buffer, std::size_t size);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace cohort::jobspec
