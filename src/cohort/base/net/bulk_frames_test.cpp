#include "cohort/base/net/bulk_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort {
namespace {

constexpr std::size_t kMost = 40'000;
constexpr Digest kFrameKey{1, 2, 3};

struct Received {
  std::string text;
  std::string bulk;
  bool operator==(const Received&) const = default;
};

// Payloads are bulk length u32, CRC-32C u32, text; those of a text "plain..." or "last" have none.
class Recorder : public FrameHandler {
 public:
  std::optional<Bulk> frame(std::string_view payload) override {
    text_ = payload.substr(8);
    memory_.assign(get_integer<std::uint32_t>(payload.data()), '?');
    if (text_.starts_with("plain") || text_ == "last") return std::nullopt;
    return Bulk{memory_.size(), get_integer<std::uint32_t>(payload.data() + 4)};
  }
  std::optional<std::byte*> place() override {
    ++asked;
    if (!wanted) return std::nullopt;
    return reinterpret_cast<std::byte*>(memory_.data());
  }
  void complete(UniqueFd) override { received.push_back({text_, memory_}); }
  bool is_over() const override { return text_ == "last"; }

  bool wanted = true;
  int asked = 0;
  std::vector<Received> received;

 private:
  std::string text_;
  std::string memory_;
};

// Writes messages as a connection would: as many bytes a time as `step` says.
class Sender {
 public:
  std::string write(const Received& message, std::size_t step = 1 << 20, bool damaged = false) {
    std::string payload;
    const auto* bulk = reinterpret_cast<const std::byte*>(message.bulk.data());
    ByteWriter(payload)
        .integer(static_cast<std::uint32_t>(message.bulk.size()))
        .integer(crc32c(bulk, message.bulk.size()) ^ (damaged ? 1u : 0u));
    writer_.start(payload + message.text, bulk, message.bulk.size());
    std::string out;
    std::array<iovec, 2> places;
    while (!writer_.idle()) {
      const int count = writer_.prepare(places);
      std::size_t sent = 0;
      for (int i = 0; i < count && sent < step; ++i) {
        const std::size_t part = std::min(step - sent, places[static_cast<std::size_t>(i)].iov_len);
        out.append(static_cast<const char*>(places[static_cast<std::size_t>(i)].iov_base), part);
        sent += part;
      }
      writer_.commit(sent);
    }
    return out;
  }
  BulkFrameWriter& writer() { return writer_; }

 private:
  BulkFrameWriter writer_{FrameEncoder(kFrameKey, kMost)};
};

class BulkFrames : public ::testing::Test {
 protected:
  // Gives `bytes` to the reader, at most `step` a read. How many it took before it stalled.
  std::size_t feed(std::string_view bytes, std::size_t step = 1 << 20) {
    std::array<iovec, 2> places;
    std::size_t taken = 0;
    while (taken < bytes.size()) {
      const int count = reader_.prepare(places);
      if (count == 0) return taken;
      std::size_t read = 0;
      for (int i = 0; i < count; ++i) {
        const auto& place = places[static_cast<std::size_t>(i)];
        const std::size_t part =
            std::min({step - read, place.iov_len, bytes.size() - taken - read});
        std::memcpy(place.iov_base, bytes.data() + taken + read, part);
        read += part;
      }
      taken += read;
      reader_.commit(read);
    }
    return taken;
  }

  const std::vector<Received> messages_{{"plain", ""},
                                        {"empty bulk", ""},
                                        {"small", "abc"},
                                        {"large", std::string(700'000, 'x')},
                                        {"plain " + std::string(kMost - 100, 'y'), ""},
                                        {"again", std::string(5'000, 'z')}};
  Recorder recorder_;
  BulkFrameReader reader_{FrameDecoder(kFrameKey, kMost), kMost, recorder_};
  Sender sender_;
};

TEST_F(BulkFrames, ComeWholeAndInOrderHoweverTheyAreCut) {
  for (const std::size_t step : {std::size_t{1} << 20, std::size_t{4096}, std::size_t{977}}) {
    recorder_.received.clear();
    std::string bytes;
    for (const Received& message : messages_) bytes += sender_.write(message, step);
    EXPECT_EQ(feed(bytes, step), bytes.size());
    EXPECT_EQ(recorder_.received, messages_) << step;
  }
}

TEST_F(BulkFrames, AMessageThatIsNotWantedYetHoldsUpTheRest) {
  recorder_.wanted = false;
  std::string bytes = sender_.write({"empty bulk", ""});
  bytes += sender_.write({"small", "abc"});
  const std::size_t taken = feed(bytes);
  EXPECT_TRUE(reader_.stalled());
  EXPECT_FALSE(reader_.resume());
  EXPECT_TRUE(recorder_.received.empty());
  recorder_.wanted = true;
  EXPECT_TRUE(reader_.resume());
  EXPECT_EQ(feed(bytes.substr(taken)), bytes.size() - taken);
  EXPECT_EQ(recorder_.received.size(), 2u);
}

TEST_F(BulkFrames, DamagedBulkIsReportedAndNotDelivered) {
  EXPECT_THROW(feed(sender_.write({"small", "abc"}, 1 << 20, true)), ProtocolError);
  EXPECT_TRUE(recorder_.received.empty());
}

TEST_F(BulkFrames, ADamagedOrRepeatedFrameIsRefused) {
  const std::string bytes = sender_.write({"plain", ""});
  feed(bytes);
  EXPECT_THROW(feed(bytes), ProtocolError);  // its sequence number is over
  Recorder recorder;
  BulkFrameReader reader(FrameDecoder(Digest{9}, kMost), kMost, recorder);
  std::array<iovec, 2> places;
  reader.prepare(places);
  std::memcpy(places[0].iov_base, bytes.data(), bytes.size());
  EXPECT_THROW(reader.commit(bytes.size()), ProtocolError);
}

TEST_F(BulkFrames, ALengthOverTheBoundIsRefusedAtItsFourthByte) {
  std::string bytes;
  ByteWriter(bytes).integer(static_cast<std::uint32_t>(kMost + 1));
  EXPECT_THROW(feed(bytes), ProtocolError);
}

TEST_F(BulkFrames, NothingFollowsTheLastMessage) {
  const std::string last = sender_.write({"last", ""});
  EXPECT_EQ(feed(last), last.size());
  std::array<iovec, 2> places;
  EXPECT_EQ(reader_.prepare(places), 0);
}

TEST_F(BulkFrames, BytesBehindTheLastMessageAreRefused) {
  EXPECT_THROW(feed(sender_.write({"last", ""}) + "x"), ProtocolError);
}

TEST_F(BulkFrames, ABulkThatIsTakenBackIsStillSent) {
  std::string bulk(10'000, 'b');
  std::string payload;
  const auto* memory = reinterpret_cast<const std::byte*>(bulk.data());
  ByteWriter(payload).integer(std::uint32_t{10'000}).integer(crc32c(memory, bulk.size()));
  BulkFrameWriter& writer = sender_.writer();
  writer.start(payload + "kept", memory, bulk.size());
  std::string out;
  std::array<iovec, 2> places;
  for (int round = 0; !writer.idle(); ++round) {
    writer.prepare(places);
    const std::size_t part = std::min<std::size_t>(places[0].iov_len, 1000);
    out.append(static_cast<const char*>(places[0].iov_base), part);
    writer.commit(part);
    if (round == 3) {
      writer.detach();
      bulk.assign(bulk.size(), '!');
    }
  }
  feed(out);
  EXPECT_EQ(recorder_.received, (std::vector<Received>{{"kept", std::string(10'000, 'b')}}));
}

}  // namespace
}  // namespace cohort
