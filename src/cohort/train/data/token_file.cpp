#include "cohort/train/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/unique_fd.h"
#include "cohort/train/data/data_file.h"
#include "cohort/train/data/npy_header.h"

namespace cohort::train {
namespace {

constexpr const char* kTokenAdvice =
    "Write it as numpy.save() does, or as plain little-endian u16 or u32 and say which with type.";

struct TokenLayout {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 2;  // of a token
  bool is_signed = false;
};

std::int64_t decode_token(const char* bytes, const TokenLayout& layout) {
  switch (layout.bytes) {
    case 1:
      return layout.is_signed ? static_cast<std::int8_t>(*bytes)
                              : static_cast<std::int64_t>(static_cast<unsigned char>(*bytes));
    case 2:
      return layout.is_signed ? static_cast<std::int16_t>(get_integer<std::uint16_t>(bytes))
                              : static_cast<std::int64_t>(get_integer<std::uint16_t>(bytes));
    case 4:
      return layout.is_signed ? static_cast<std::int32_t>(get_integer<std::uint32_t>(bytes))
                              : static_cast<std::int64_t>(get_integer<std::uint32_t>(bytes));
    default:
      return static_cast<std::int64_t>(get_integer<std::uint64_t>(bytes));
  }
}

class TokenFile final : public TokenStore {
 public:
  TokenFile(DataFile file, const TokenFileOptions& options)
      : file_(std::move(file)), fd_(::open(file_.path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!fd_)
      file_.refuse(errno == ENOENT ? std::string("there is no such file")
                                   : fmt::format("cannot be opened: {}", std::strerror(errno)));
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode))
      file_.refuse("is not a regular file");
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (file_.path.extension() == ".npy")
      read_npy_header(bytes);
    else
      set_raw_layout(bytes, options);
    if (size_ == 0) file_.refuse("has no tokens");
  }

  std::int64_t size() const override { return size_; }
  std::string name() const override { return fmt::format("'{}'", file_.path.string()); }

  void read(std::int64_t first, std::span<std::int64_t> out) const override {
    COHORT_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size_,
                 "tokens {} to {} of {}", first, first + static_cast<std::int64_t>(out.size()),
                 size_);
    std::array<char, 16 * 1024> buffer;
    const std::size_t most = buffer.size() / layout_.bytes;
    auto at = layout_.offset + static_cast<std::uint64_t>(first) * layout_.bytes;
    while (!out.empty()) {
      const std::size_t count = std::min(out.size(), most);
      read_bytes(buffer.data(), count * layout_.bytes, at);
      for (std::size_t i = 0; i < count; ++i)
        out[i] = decode_token(&buffer[i * layout_.bytes], layout_);
      out = out.subspan(count);
      at += count * layout_.bytes;
    }
  }

 private:
  void set_raw_layout(std::uint64_t bytes, const TokenFileOptions& options) {
    if (options.header_bytes < 0 || static_cast<std::uint64_t>(options.header_bytes) > bytes)
      file_.refuse(
          fmt::format("has {} bytes, and header_bytes is {}", bytes, options.header_bytes));
    layout_ = {.offset = static_cast<std::uint64_t>(options.header_bytes),
               .bytes = options.type == TokenType::u16 ? 2u : 4u,
               .is_signed = false};
    const std::uint64_t data = bytes - layout_.offset;
    if (data % layout_.bytes != 0)
      file_.refuse(
          fmt::format("has {} bytes of tokens, which is no multiple of {}", data, layout_.bytes));
    size_ = static_cast<std::int64_t>(data / layout_.bytes);
  }

  void read_npy_header(std::uint64_t bytes) {
    std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kMostNpyHeaderBytes)),
                     '\0');
    read_bytes(head.data(), head.size(), 0);
    const NpyHeader header = parse_npy_header(head, bytes, file_.path.string());
    if (header.shape.size() != 1 || (header.type[1] != 'u' && header.type[1] != 'i'))
      file_.refuse(
          fmt::format("holds an array of {} dimensions of type {}; tokens are one "
                      "dimension of integers",
                      header.shape.size(), header.type));
    layout_ = {.offset = header.offset,
               .bytes = header.element_bytes(),
               .is_signed = header.type[1] == 'i'};
    size_ = header.shape[0];
  }

  void read_bytes(char* out, std::size_t size, std::uint64_t at) const {
    while (size > 0) {
      const ssize_t count = ::pread(fd_.get(), out, size, static_cast<off_t>(at));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) file_.refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
      if (count == 0)
        file_.refuse(fmt::format("ends at byte {}: it has become shorter since it was opened", at));
      out += count;
      at += static_cast<std::uint64_t>(count);
      size -= static_cast<std::size_t>(count);
    }
  }

  DataFile file_;
  UniqueFd fd_;
  TokenLayout layout_;
  std::int64_t size_ = 0;
};

class TokenVector final : public TokenStore {
 public:
  TokenVector(std::vector<std::int64_t> tokens, std::string name)
      : tokens_(std::move(tokens)), name_(std::move(name)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::string name() const override { return name_; }
  void read(std::int64_t first, std::span<std::int64_t> out) const override {
    COHORT_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size(),
                 "tokens {} and {} more of {}", first, out.size(), size());
    std::copy_n(tokens_.begin() + first, out.size(), out.begin());
  }

 private:
  std::vector<std::int64_t> tokens_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const TokenStore> open_token_file(const std::filesystem::path& path,
                                                  const TokenFileOptions& options) {
  return std::make_shared<TokenFile>(DataFile{.path = path, .advice = kTokenAdvice}, options);
}

std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::int64_t> tokens,
                                                   std::string name) {
  return std::make_shared<TokenVector>(std::move(tokens), std::move(name));
}

void write_token_file(const std::filesystem::path& path, std::span<const std::int64_t> tokens,
                      TokenType type) {
  const std::int64_t most = type == TokenType::u16 ? UINT16_MAX : UINT32_MAX;
  std::string bytes;
  bytes.reserve(tokens.size() * (type == TokenType::u16 ? 2 : 4));
  ByteWriter out(bytes);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] > most)
      throw InvalidInput(fmt::format("token {} at position {} does not fit '{}', whose tokens are "
                                     "0 to {}",
                                     tokens[i], i, path.string(), most),
                         {.advice = "Write it with TokenType::u32."});
    if (type == TokenType::u16)
      out.integer(static_cast<std::uint16_t>(tokens[i]));
    else
      out.integer(static_cast<std::uint32_t>(tokens[i]));
  }
  write_file_atomically(path, bytes);
}

}  // namespace cohort::train
