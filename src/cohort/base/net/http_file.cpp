#include "cohort/base/net/http_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"

namespace cohort {
namespace {

class FileStream : public BodyStream {
 public:
  FileStream(UniqueFd file, std::uint64_t offset, std::uint64_t size)
      : file_(std::move(file)), next_(offset), end_(offset + size), size_(size) {}

  Then next(std::string& bytes) override {
    const std::size_t before = bytes.size();
    bytes.resize(before + std::min<std::uint64_t>(kPiece, end_ - next_));
    const ssize_t count = ::pread(file_.get(), bytes.data() + before, bytes.size() - before,
                                  static_cast<off_t>(next_));
    if (count < 0) throw SystemError("cannot read a file that is being sent", errno);
    bytes.resize(before + static_cast<std::size_t>(count));
    next_ += static_cast<std::uint64_t>(count);
    return count == 0 || next_ == end_ ? Then::end() : Then::more();
  }
  std::optional<std::uint64_t> size() const override { return size_; }

 private:
  UniqueFd file_;
  std::uint64_t next_, end_, size_;
};

}  // namespace

std::unique_ptr<BodyStream> make_file_stream(UniqueFd file, std::uint64_t offset,
                                             std::uint64_t size) {
  return std::make_unique<FileStream>(std::move(file), offset, size);
}

}  // namespace cohort
