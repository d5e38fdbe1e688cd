#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cohort/base/crypto/hmac.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

// Tensors to and from safetensors files, which Python's `safetensors` package reads and writes too.
//
// Files written here carry a CRC-32C of every tensor and one of the header in their metadata
// (safetensors_layout.h); loading checks those that are there. Types: f64 f32 f16 bf16 i64 i32 i16
// i8 u8 bool. Functions hold no state; concurrent calls on different files and tensors do not meet.
namespace cohort::train {

// By name, so in the same order everywhere.
using TensorMap = std::map<std::string, torch::Tensor>;

struct FileIdentity {
  std::uint64_t bytes = 0;
  Digest sha256{};
};

// Takes the file's bytes in order, in portions of at most kPortionBytes. May throw to give up.
using ByteSink = std::function<void(std::string_view)>;
inline constexpr std::size_t kPortionBytes = 4 << 20;

// Streams the file to `sink`; tensors on another device or not contiguous are copied one at a time.
// The same tensors and metadata give the same bytes. InvalidInput names a tensor whose type the
// format does not have.
FileIdentity write_safetensors(const TensorMap& tensors, const Metadata& metadata,
                               const ByteSink& sink);

// Writes `path` in one step (durable_file.h). SystemError when the disk refuses.
FileIdentity save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const Metadata& metadata = {});

struct LoadedTensors {
  TensorMap tensors;  // on the CPU, contiguous
  Metadata metadata;  // without the checksums
  FileIdentity file;
};

// Checks the whole header before it allocates anything, and every checksum. InvalidInput names the
// file, the tensor and the reason; SystemError when the file cannot be read.
LoadedTensors load_safetensors(const std::filesystem::path& path);

// The format's type of `tensor`; InvalidInput that names it where there is none.
Dtype dtype_of(const std::string& name, const torch::Tensor& tensor);

// The bytes of a contiguous CPU tensor; valid as long as its storage.
std::string_view bytes_of(const torch::Tensor& tensor);

// `tensor` itself where it is contiguous on the CPU already, else a copy that is.
torch::Tensor on_cpu(const torch::Tensor& tensor);

// Names, types and shapes as bytes; and tensors with these, of undefined contents, on the CPU.
// allocate_tensors trusts its input (it comes from a rank of this job) for the sizes alone.
std::string describe_tensors(const TensorMap& tensors);
TensorMap allocate_tensors(std::string_view description);

}  // namespace cohort::train
