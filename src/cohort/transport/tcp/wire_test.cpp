#include "cohort/transport/tcp/wire.h"

#include <gtest/gtest.h>

#include "cohort/base/data/hex_test.h"
#include "cohort/base/error.h"

namespace cohort::transport::tcp {
namespace {

const ChunkHeader kChunk{
    .number = 3, .size = 600000, .offset = 262144, .length = 262144, .crc = 0x01020304};

TEST(TcpWire, BytesOnTheWireStayAsTheyAre) {
  EXPECT_EQ(to_hex(encode(kChunk)),
            "010300000000000000c02709000000000000000400000000000000040004030201");
  EXPECT_EQ(to_hex(encode(Goodbye{Goodbye::Kind::aborted, {7, -1, "lost\trank 2"}})),
            "020107000000ffffffff0b0000006c6f73740972616e6b2032");
  EXPECT_EQ(to_hex(encode(Beat{})), "03");
  EXPECT_EQ(to_hex(encode(Purpose{"tag", 1, 4, Lane::point_to_point, 0, 2, "worker/1"})),
            "7461672031203420312030203220776f726b65722f31");
}

TEST(TcpWire, ControlsComeBackAsTheyWere) {
  EXPECT_EQ(std::get<ChunkHeader>(decode_control(encode(kChunk))), kChunk);
  EXPECT_TRUE(std::holds_alternative<Beat>(decode_control(encode(Beat{}))));
  const Control control =
      decode_control(encode(Goodbye{Goodbye::Kind::aborted, {7, -1, "lost\trank 2"}}));
  const auto& goodbye = std::get<Goodbye>(control);
  EXPECT_EQ(goodbye.kind, Goodbye::Kind::aborted);
  EXPECT_EQ(goodbye.notice.kind, 7u);
  EXPECT_EQ(goodbye.notice.culprit, -1);
  EXPECT_EQ(goodbye.notice.text, "lost rank 2") << "it is printed";
}

TEST(TcpWire, AGoodbyeIsCutToWhatThePeerTakes) {
  const std::string text(kMaxGoodbyeText + 1, 'x');
  const Control control = decode_control(encode(Goodbye{Goodbye::Kind::left, {0, 0, text}}));
  EXPECT_EQ(std::get<Goodbye>(control).notice.text.size(), kMaxGoodbyeText);
}

TEST(TcpWire, EveryCutAndEveryUnknownKindIsNoticed) {
  const Goodbye goodbye{Goodbye::Kind::left, {0, 0, "text"}};
  for (const std::string& bytes : {encode(kChunk), encode(goodbye), encode(Beat{})}) {
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_control(bytes.substr(0, size)), ProtocolError) << size;
    EXPECT_THROW(decode_control(bytes + '\0'), ProtocolError);
  }
  std::string bytes = encode(goodbye);
  bytes[1] = 3;
  EXPECT_THROW(decode_control(bytes), ProtocolError);
  for (const char kind : {0, 4, 127})
    EXPECT_THROW(decode_control(std::string(1, kind)), ProtocolError);
}

TEST(TcpWire, AChunkThatFitsNoMessageIsRefused) {
  const auto expect_refused = [](auto change) {
    ChunkHeader header = kChunk;
    change(header);
    EXPECT_THROW(decode_control(encode(header)), ProtocolError);
  };
  expect_refused([](ChunkHeader& h) { h.size = kMaxMessage + 1; });
  expect_refused([](ChunkHeader& h) { h.offset += 1; });
  expect_refused([](ChunkHeader& h) { h.offset = 3 * kChunkBytes; });
  expect_refused([](ChunkHeader& h) { h.length -= 1; });
}

}  // namespace
}  // namespace cohort::transport::tcp
