#include "cohort/train/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"
#include "cohort/train/checkpoint/durable_file.h"

namespace cohort::train {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::pair<Dtype, torch::ScalarType> kTypes[] = {
    {Dtype::f64, torch::kFloat64}, {Dtype::i64, torch::kInt64},   {Dtype::f32, torch::kFloat32},
    {Dtype::i32, torch::kInt32},   {Dtype::f16, torch::kFloat16}, {Dtype::bf16, torch::kBFloat16},
    {Dtype::i16, torch::kInt16},   {Dtype::i8, torch::kInt8},     {Dtype::u8, torch::kUInt8},
    {Dtype::boolean, torch::kBool}};

torch::ScalarType scalar_type_of(Dtype dtype) {
  return std::find_if(std::begin(kTypes), std::end(kTypes),
                      [&](const auto& pair) { return pair.first == dtype; })
      ->second;
}

std::string checksum_key(const std::string& tensor) {
  return std::string(kChecksumPrefix) + tensor;
}

// Reads a file from its first byte to its last and hashes what it read.
class SequentialReader {
 public:
  explicit SequentialReader(const std::filesystem::path& path)
      : path_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (!fd_ || ::fstat(fd_.get(), &status) != 0) fail(errno);
    if (!S_ISREG(status.st_mode)) throw InvalidInput(fmt::format("'{}' is not a file", path_));
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  Digest digest() { return hash_.finish(); }

  // In portions that still lie in the processor's cache when `seen` takes them.
  void read(char* out, std::uint64_t size, const ByteSink& seen) {
    while (size > 0) {
      const ssize_t count =
          ::read(fd_.get(), out, static_cast<std::size_t>(std::min<std::uint64_t>(size, 1 << 20)));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno);
      if (count == 0)
        throw InvalidInput(fmt::format("'{}' became shorter while it was read", path_));
      const std::string_view portion(out, static_cast<std::size_t>(count));
      hash_.update(portion);
      seen(portion);
      out += count;
      size -= static_cast<std::uint64_t>(count);
    }
  }

  std::string read_text(std::uint64_t size) {
    std::string text(size, '\0');
    read(text.data(), size, [](std::string_view) {});
    return text;
  }

 private:
  [[noreturn]] void fail(int code) const {
    throw SystemError(fmt::format("cannot read '{}'", path_), code);
  }

  std::string path_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
};

Layout layout_of(const TensorMap& tensors) {
  Layout layout;
  for (const auto& [name, tensor] : tensors)
    layout.tensors.push_back(
        {.name = name, .dtype = dtype_of(name, tensor), .shape = tensor.sizes().vec()});
  arrange(layout);
  return layout;
}

torch::Tensor empty_tensor(const TensorEntry& entry) {
  return torch::empty(entry.shape, torch::TensorOptions().dtype(scalar_type_of(entry.dtype)));
}

torch::Tensor read_tensor(SequentialReader& file, const TensorEntry& entry, Metadata& metadata) {
  auto tensor = empty_tensor(entry);
  std::uint32_t crc = 0;
  file.read(static_cast<char*>(tensor.data_ptr()), entry.end - entry.begin,
            [&](std::string_view bytes) { crc = crc32c(bytes.data(), bytes.size(), crc); });
  check_booleans(entry,
                 {static_cast<const char*>(tensor.data_ptr()),
                  static_cast<std::size_t>(entry.end - entry.begin)},
                 file.path());
  auto expected = metadata.find(checksum_key(entry.name));
  if (expected == metadata.end()) return tensor;
  if (expected->second != checksum_text(crc))
    throw InvalidInput(fmt::format("'{}' is damaged: tensor '{}' has checksum {}, but {} was saved",
                                   file.path(), entry.name, checksum_text(crc), expected->second));
  metadata.erase(expected);
  return tensor;
}

}  // namespace

Dtype dtype_of(const std::string& name, const torch::Tensor& tensor) {
  for (const auto& [dtype, scalar_type] : kTypes)
    if (tensor.scalar_type() == scalar_type && tensor.layout() == torch::kStrided) return dtype;
  throw InvalidInput(fmt::format("tensor '{}' is {} {}, which a safetensors file cannot hold", name,
                                 tensor.layout() == torch::kStrided ? "dense" : "sparse",
                                 c10::toString(tensor.scalar_type())));
}

std::string_view bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

torch::Tensor on_cpu(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU).contiguous();
}

std::string describe_tensors(const TensorMap& tensors) {
  const Layout layout = layout_of(tensors);
  std::string bytes;
  ByteWriter(bytes).integer(layout.tensors.empty() ? 0 : layout.tensors.back().end);
  return bytes + encode_header(layout);
}

TensorMap allocate_tensors(std::string_view description) {
  const std::string source = "a description of tensors";
  ByteReader in(description);
  const auto data_bytes = in.integer<std::uint64_t>();
  const auto rest = description.substr(description.size() - in.remaining());
  const auto length = parse_header_length(rest, rest.size(), source);
  TensorMap tensors;
  for (const auto& entry :
       parse_header(rest.substr(kLengthBytes, length), data_bytes, source).tensors)
    tensors.emplace(entry.name, empty_tensor(entry));
  return tensors;
}

FileIdentity write_safetensors(const TensorMap& tensors, const Metadata& metadata,
                               const ByteSink& sink) {
  Layout layout = layout_of(tensors);
  layout.metadata = metadata;
  layout.metadata[std::string(kHeaderChecksum)] = kNoChecksum;
  layout.metadata[std::string(kHeaderIsChecked)] = kChecked;
  for (const auto& [name, tensor] : tensors) {
    const auto held = on_cpu(tensor);
    const auto bytes = bytes_of(held);
    layout.metadata[checksum_key(name)] = checksum_text(crc32c(bytes.data(), bytes.size()));
  }

  FileIdentity file;
  Sha256 hash;
  auto put = [&](std::string_view bytes) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPortionBytes))) {
      const auto portion = bytes.substr(0, kPortionBytes);
      hash.update(portion);
      file.bytes += portion.size();
      sink(portion);
    }
  };
  put(encode_header(layout));
  for (const TensorEntry& entry : layout.tensors) {
    const auto held = on_cpu(tensors.at(entry.name));
    put(bytes_of(held));
  }
  file.sha256 = hash.finish();
  return file;
}

FileIdentity save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const Metadata& metadata) {
  DurableFile file(path);
  auto identity =
      write_safetensors(tensors, metadata, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
  return identity;
}

LoadedTensors load_safetensors(const std::filesystem::path& path) {
  SequentialReader file(path);
  LoadedTensors loaded;
  loaded.file.bytes = file.bytes();
  const auto first = file.read_text(std::min(file.bytes(), kLengthBytes));
  const auto length = parse_header_length(first, file.bytes(), file.path());
  auto layout =
      parse_header(file.read_text(length), file.bytes() - kLengthBytes - length, file.path());
  for (const TensorEntry& entry : layout.tensors)
    loaded.tensors.emplace(entry.name, read_tensor(file, entry, layout.metadata));
  loaded.metadata = std::move(layout.metadata);
  loaded.file.sha256 = file.digest();
  return loaded;
}

}  // namespace cohort::train
