// libFuzzer: whatever bytes come after the handshake, the parser of tcp's frames neither crashes
// nor writes outside the memory it was given nor takes a chunk that was not sent.
//
// Raw bytes never pass the MAC, so the input is a script: each step feeds bytes as they are, or the
// same bytes in a frame with a right MAC (what a peer that knows the secret but breaks the protocol
// could send), or a right chunk, whole or damaged. The script also says in which portions all of it
// is read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/net/bulk_frames.h"
#include "cohort/transport/tcp/wire.h"

namespace {

using namespace cohort;
using namespace cohort::transport::tcp;

constexpr Digest kKey{1, 2, 3};

// Proves that the fuzzer finds what it is for: the sink then offers a byte too little.
#ifdef COHORT_FUZZ_PLANTED_BUG
constexpr bool kPlantedBug = true;
#else
constexpr bool kPlantedBug = false;
#endif

// Memory of exactly the announced length, so that AddressSanitizer sees a byte too many.
class FuzzSink : public FrameHandler {
 public:
  std::optional<Bulk> frame(std::string_view payload) override {
    if (is_over()) std::abort();
    control_ = decode_control(payload);
    if (const auto* header = std::get_if<ChunkHeader>(&control_))
      return Bulk{header->length, header->crc};
    return std::nullopt;
  }
  std::optional<std::byte*> place() override {
    const auto& header = std::get<ChunkHeader>(control_);
    if (header.length > kChunkBytes || header.offset + header.length > header.size) std::abort();
    if (++refusals_ % 4 == 3) return std::nullopt;
    memory_.assign(header.length - (kPlantedBug && header.length > 1 ? 1 : 0), std::byte{0});
    memory_.shrink_to_fit();
    return memory_.data();
  }
  void complete(UniqueFd) override {
    if (const auto* header = std::get_if<ChunkHeader>(&control_))
      if (crc32c(memory_.data(), header->length) != header->crc) std::abort();
    if (const auto* goodbye = std::get_if<Goodbye>(&control_))
      if (goodbye->notice.text.size() > kMaxGoodbyeText) std::abort();
  }
  bool is_over() const override { return std::holds_alternative<Goodbye>(control_); }

 private:
  Control control_;
  std::vector<std::byte> memory_;
  unsigned refusals_ = 0;
};

std::string make_stream(const std::uint8_t*& data, const std::uint8_t* end) {
  FrameEncoder encoder(kKey, 4096);
  std::string stream;
  while (end - data >= 2) {
    const std::uint8_t step = *data++;
    const std::size_t wanted = *data++;
    const std::size_t length = std::min(wanted, static_cast<std::size_t>(end - data));
    const std::string bytes(reinterpret_cast<const char*>(data), length);
    data += length;
    switch (step % 4) {
      case 0:
        stream += bytes;
        break;
      case 1:
        encoder.encode(bytes, stream);
        break;
      default: {
        ChunkHeader header{.number = step,
                           .size = length,
                           .offset = 0,
                           .length = static_cast<std::uint32_t>(length),
                           .crc = crc32c(bytes.data(), length)};
        if (step % 4 == 3) header.crc ^= step / 4;
        encoder.encode(encode(header), stream);
        stream += bytes;
      }
    }
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t portion = 1 + data[0] * 7;
  const std::uint8_t* at = data + 1;
  const std::string stream = make_stream(at, data + size);
  FuzzSink sink;
  BulkFrameReader reader(FrameDecoder(kKey, kMaxControl), kMaxControl, sink);
  try {
    std::size_t fed = 0;
    for (int rounds = 0; fed < stream.size() && rounds < 100'000; ++rounds) {
      if (reader.stalled()) reader.resume();
      std::array<iovec, 2> places;
      const int count = reader.prepare(places);
      if (count == 0 && sink.is_over()) return 0;
      std::size_t moved = 0;
      for (int i = 0; i < count; ++i) {
        const std::size_t n =
            std::min({places[i].iov_len, portion - std::min(portion, moved), stream.size() - fed});
        std::memcpy(places[i].iov_base, stream.data() + fed, n);
        fed += n;
        moved += n;
        if (n < places[i].iov_len) break;
      }
      if (moved > 0) reader.commit(moved);
    }
  } catch (const ProtocolError&) {
  }
  // Decoders that take text from the network stand on their own, too.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)decode_purpose(text);
  try {
    (void)decode_control(text);
  } catch (const ProtocolError&) {
  }
  return 0;
}
