#include "cohort/ps/wire/messages.h"

#include <array>
#include <bit>
#include <type_traits>

#include "cohort/base/data/byte_io.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

namespace {

constexpr std::size_t kMaxText = kMaxControlBytes - 4096;  // a spec, statistics
constexpr std::size_t kMaxSentence = 16 << 10;             // a reason, a piece of advice
constexpr std::size_t kMaxLocalName = 107;                 // of a Unix socket
constexpr std::size_t kMaxNumbers = 1 << 16;               // learning rates, sequences by worker
constexpr std::size_t kMaxRows = 1 << 16;
constexpr std::size_t kMaxRow = 1 << 10;

// Every message has one list of fields, written and read by the same code.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      out_.integer(static_cast<std::uint8_t>(value));
    else if constexpr (std::is_enum_v<T>)
      out_.integer(static_cast<std::uint8_t>(value));
    else if constexpr (std::is_same_v<T, double>)
      out_.integer(std::bit_cast<std::uint64_t>(value));
    else
      out_.integer(value);
  }
  void text(const std::string& value, std::size_t max) {
    check(value.size(), max);
    out_.text(value);
  }
  template <typename T>
  void list(const std::vector<T>& values, std::size_t max) {
    check(values.size(), max);
    out_.integer(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) (*this)(value);
  }
  void rows(const std::vector<std::vector<double>>& values) {
    check(values.size(), kMaxRows);
    out_.integer(static_cast<std::uint32_t>(values.size()));
    for (const auto& row : values) list(row, kMaxRow);
  }

 private:
  static void check(std::size_t size, std::size_t max) {
    if (size > max)
      throw InvalidInput(
          fmt::format("a message to a parameter server has a list or text of {}; at most {} "
                      "allowed",
                      size, max));
  }
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = byte_up_to(1) != 0;
    else if constexpr (std::is_same_v<T, WireType>)
      value = static_cast<WireType>(byte_up_to(static_cast<unsigned>(WireType::bf16)));
    else if constexpr (std::is_same_v<T, Values::Reason>)
      value =
          static_cast<Values::Reason>(byte_up_to(static_cast<unsigned>(Values::Reason::pulled)));
    else if constexpr (std::is_same_v<T, double>)
      value = std::bit_cast<double>(in_.integer<std::uint64_t>());
    else
      value = in_.integer<T>();
  }
  void text(std::string& value, std::size_t max) { value = in_.text(max); }
  template <typename T>
  void list(std::vector<T>& values, std::size_t max) {
    values.resize(count(max, sizeof(T)));
    for (T& value : values) (*this)(value);
  }
  void rows(std::vector<std::vector<double>>& values) {
    values.resize(count(kMaxRows, sizeof(std::uint32_t)));
    for (auto& row : values) list(row, kMaxRow);
  }
  void expect_end() const { in_.expect_end(); }

 private:
  unsigned byte_up_to(unsigned last) {
    const unsigned byte = in_.integer<std::uint8_t>();
    if (byte > last)
      throw ProtocolError(fmt::format("a field of a message is {}; at most {}", byte, last));
    return byte;
  }
  // Memory is taken only for what the message has bytes for.
  std::size_t count(std::size_t max, std::size_t bytes_each) {
    const std::size_t count = in_.integer<std::uint32_t>();
    if (count > max)
      throw ProtocolError(fmt::format("a list of {} in a message; at most {} allowed", count, max));
    if (count > in_.remaining() / bytes_each) throw ProtocolError("a message ends too early");
    return count;
  }
  ByteReader in_;
};

template <typename Io, typename M>
void fields(Io& io, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Hello>) {
    io(m.version), io(m.worker), io(m.workers), io(m.server), io(m.servers), io(m.incarnation);
    io(m.process), io(m.chief), io(m.wire);
  } else if constexpr (std::is_same_v<T, Init>) {
    io(m.first_step), io.text(m.spec, kMaxText);
  } else if constexpr (std::is_same_v<T, SetSlice>) {
    io(m.slice), io(m.updates);
  } else if constexpr (std::is_same_v<T, TablePiece>) {
    io(m.table);
  } else if constexpr (std::is_same_v<T, Commit> || std::is_same_v<T, Leave> ||
                       std::is_same_v<T, AskLocalName>) {
  } else if constexpr (std::is_same_v<T, StepBegin>) {
    io(m.sequence), io(m.weight), io.list(m.learning_rates, kMaxNumbers);
  } else if constexpr (std::is_same_v<T, Push>) {
    io(m.slice), io(m.sequence), io(m.base_version), io(m.region_offset);
  } else if constexpr (std::is_same_v<T, RowsPush>) {
    io(m.table), io(m.sequence), io(m.base_version);
  } else if constexpr (std::is_same_v<T, StepEnd>) {
    io(m.sequence), io.rows(m.tally), io(m.round), io.text(m.stop, kMaxSentence);
  } else if constexpr (std::is_same_v<T, Pull>) {
    io(m.request), io(m.clock), io(m.before);
  } else if constexpr (std::is_same_v<T, RowsPull>) {
    io(m.request), io(m.table), io(m.sequence);
  } else if constexpr (std::is_same_v<T, FreezeRequest> || std::is_same_v<T, AskStats> ||
                       std::is_same_v<T, PullDone> || std::is_same_v<T, SnapshotDone>) {
    io(m.request);
  } else if constexpr (std::is_same_v<T, SnapshotRequest> || std::is_same_v<T, Frozen>) {
    io(m.request), io.list(m.sequences, kMaxNumbers);
  } else if constexpr (std::is_same_v<T, Welcome>) {
    io(m.initialised), io.text(m.spec, kMaxText), io(m.finished);
  } else if constexpr (std::is_same_v<T, Values>) {
    io(m.slice), io(m.sequence), io(m.version), io(m.reason);
  } else if constexpr (std::is_same_v<T, RowsDone>) {
    io(m.table), io(m.sequence), io(m.version), io(m.reason);
  } else if constexpr (std::is_same_v<T, Rows>) {
    io(m.request), io(m.version);
  } else if constexpr (std::is_same_v<T, StepDone>) {
    io(m.sequence), io(m.whole), io.list(m.tally, kMaxNumbers), io.text(m.stop, kMaxSentence);
  } else if constexpr (std::is_same_v<T, SliceState>) {
    io(m.request), io(m.slice), io(m.version), io(m.updates);
  } else if constexpr (std::is_same_v<T, Stats>) {
    io(m.request), io.text(m.json, kMaxText);
  } else if constexpr (std::is_same_v<T, LocalName>) {
    io.text(m.name, kMaxLocalName);
  } else {
    static_assert(std::is_same_v<T, Refused>);
    io(m.fatal), io.text(m.reason, kMaxSentence), io.text(m.advice, kMaxSentence);
  }
}

using Decode = Message (*)(std::string_view);

template <typename M>
Message decode_as(std::string_view bytes) {
  M message;
  Reader reader(bytes);
  fields(reader, message);
  reader.expect_end();
  return message;
}

template <std::size_t... I>
constexpr auto make_decoders(std::index_sequence<I...>) {
  return std::array<Decode, sizeof...(I)>{&decode_as<std::variant_alternative_t<I, Message>>...};
}

constexpr auto kDecoders = make_decoders(std::make_index_sequence<std::variant_size_v<Message>>());
static_assert(kDecoders.size() <= kFirstReplicaByte);

}  // namespace

void encode_into(const Message& message, std::string& control) {
  control.assign(1, static_cast<char>(message.index()));
  Writer writer(control);
  std::visit([&](const auto& m) { fields(writer, m); }, message);
}

std::string encode(const Message& message) {
  std::string control;
  encode_into(message, control);
  return control;
}

Message decode_message(std::string_view control) {
  if (control.empty()) throw ProtocolError("a message is empty");
  const auto index = static_cast<unsigned char>(control[0]);
  if (index >= kDecoders.size())
    throw ProtocolError(fmt::format("a message of unknown kind {}", index),
                        {.advice = "Run the same version of Cohort on all hosts."});
  return kDecoders[index](control.substr(1));
}

}  // namespace cohort::ps
