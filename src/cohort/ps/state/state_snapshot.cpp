#include "cohort/ps/state/state_snapshot.h"

#include <algorithm>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/ps/model/model_spec_checks.h"
#include "cohort/ps/model/model_spec_text.h"

// docs/formats.md has a snapshot's pieces, in the order head, slices, (table, rows...)..., end.
namespace cohort::ps {
namespace {

enum class Piece : std::uint8_t { head = 1, slice, table, rows, end };
constexpr std::string_view kName = "cohort-ps";
constexpr std::uint32_t kSnapshotLayout = 1;

[[noreturn]] void refuse_snapshot(const std::string& what) {
  throw InvalidInput("a snapshot of a parameter server's state " + what);
}

// Pieces as they come, each a reader behind its kind.
class Pieces {
 public:
  explicit Pieces(const std::function<std::optional<std::string>()>& read) : read_(read) {}

  Piece next() {
    std::optional<std::string> piece = read_();
    if (!piece) refuse_snapshot(fmt::format("ends after {} pieces, before its end", count_));
    piece_ = std::move(*piece);
    reader_ = ByteReader(piece_);
    ++count_;
    const auto kind = reader_.integer<std::uint8_t>();
    if (kind < static_cast<std::uint8_t>(Piece::head) ||
        kind > static_cast<std::uint8_t>(Piece::end))
      refuse_snapshot(fmt::format("has a piece of the unknown kind {}", kind));
    return static_cast<Piece>(kind);
  }
  ByteReader& reader() { return reader_; }
  std::string_view rest() const {
    return std::string_view(piece_).substr(piece_.size() - reader_.remaining());
  }
  std::uint64_t count() const { return count_; }

 private:
  const std::function<std::optional<std::string>()>& read_;
  std::string piece_;
  ByteReader reader_{{}};
  std::uint64_t count_ = 0;
};

std::uint64_t value_bytes(const SliceShape& shape) { return shape.elements * size_of(shape.type); }

std::vector<std::uint64_t> read_ledger(ByteReader& reader, int workers) {
  std::vector<std::uint64_t> ledger(static_cast<std::size_t>(workers));
  for (std::uint64_t& entry : ledger) entry = reader.integer<std::uint64_t>();
  return ledger;
}

// The next number of a row 0, 1, 2, ... that ends before `count`.
int expect_number(ByteReader& reader, std::size_t expected, std::size_t count, const char* what) {
  const auto number = reader.integer<std::uint32_t>();
  if (number != expected || number >= count)
    refuse_snapshot(fmt::format("has {} {} of {} where {} belongs", what, number, count, expected));
  return static_cast<int>(number);
}

void write_piece(const std::function<void(std::string_view piece)>& write, std::uint64_t& count,
                 std::string_view piece) {
  write(piece);
  ++count;
}

ByteWriter begin_piece(std::string& piece, Piece kind) {
  piece.clear();
  ByteWriter writer(piece);
  writer.integer(static_cast<std::uint8_t>(kind));
  return writer;
}

}  // namespace

void write_snapshot(const ServerState& state,
                    const std::function<void(std::string_view piece)>& write) {
  const Segment& segment = state.segment();
  std::uint64_t count = 0;
  std::string piece;
  begin_piece(piece, Piece::head)
      .text(kName)
      .integer(kSnapshotLayout)
      .integer(static_cast<std::uint32_t>(state.options().server))
      .integer(static_cast<std::uint32_t>(state.options().servers))
      .integer(static_cast<std::uint32_t>(state.slices().size()))
      .integer(static_cast<std::uint32_t>(state.tables()))
      .text(state.spec_text());
  write_piece(write, count, piece);
  for (int i = 0; i < segment.slices(); ++i) {
    const SliceSide side = segment.current(i);
    ByteWriter writer = begin_piece(piece, Piece::slice);
    writer.integer(static_cast<std::uint32_t>(i))
        .integer(segment.version(i))
        .integer(*side.updates);
    for (const std::uint64_t entry : side.ledger) writer.integer(entry);
    const auto previous = segment.previous(i);
    writer.integer(static_cast<std::uint8_t>(previous.has_value()));
    std::uint64_t updates = 0;
    state.get_slice(i, updates, piece);
    if (previous)
      piece.append(reinterpret_cast<const char*>(previous->values), value_bytes(segment.shape(i)));
    write_piece(write, count, piece);
  }
  for (int i = 0; i < state.tables(); ++i) {
    const SparseTable& table = state.table(i);
    ByteWriter writer = begin_piece(piece, Piece::table);
    writer.integer(static_cast<std::uint32_t>(i)).integer(table.version());
    for (int worker = 0; worker < state.spec().workers; ++worker)
      writer.integer(table.ledger(worker));
    write_piece(write, count, piece);
    table.write_snapshot([&](std::string_view rows) {
      begin_piece(piece, Piece::rows).integer(static_cast<std::uint32_t>(i));
      piece.append(rows);
      write_piece(write, count, piece);
    });
  }
  begin_piece(piece, Piece::end).integer(count);
  write(piece);
}

std::unique_ptr<ServerState> state_from_snapshot(
    int file, ServerState::Options options,
    const std::function<std::optional<std::string>()>& read) try {
  Pieces pieces(read);
  ByteReader& reader = pieces.reader();
  if (pieces.next() != Piece::head || reader.text(kName.size()) != kName)
    refuse_snapshot("does not begin with its head");
  const auto layout = reader.integer<std::uint32_t>();
  if (layout != kSnapshotLayout)
    refuse_snapshot(
        fmt::format("has the layout {}; this program reads {}", layout, kSnapshotLayout));
  const auto server = reader.integer<std::uint32_t>();
  const auto servers = reader.integer<std::uint32_t>();
  if (server != static_cast<std::uint32_t>(options.server) ||
      servers != static_cast<std::uint32_t>(options.servers))
    refuse_snapshot(fmt::format("is of server {} of {}, not of {} of {}", server, servers,
                                options.server, options.servers));
  const auto slice_count = reader.integer<std::uint32_t>();
  const auto table_count = reader.integer<std::uint32_t>();
  const ModelSpec spec = parse_model_spec(std::string(reader.text(kMaxSpecBytes)));
  reader.expect_end();
  std::unique_ptr<ServerState> result = ServerState::create(file, spec, 0, options);
  if (slice_count != result->slices().size() ||
      table_count != static_cast<std::uint32_t>(result->tables()))
    refuse_snapshot(fmt::format("has {} slices and {} tables where its model has {} and {}",
                                slice_count, table_count, result->slices().size(),
                                result->tables()));

  std::size_t slices = 0;
  std::size_t tables = 0;
  while (true) {
    switch (pieces.next()) {
      case Piece::head:
        refuse_snapshot("has two heads");
      case Piece::slice: {
        const int slice = expect_number(reader, slices++, slice_count, "slice");
        const auto version = reader.integer<std::uint64_t>();
        const auto updates = reader.integer<std::uint64_t>();
        const std::vector<std::uint64_t> ledger = read_ledger(reader, spec.workers);
        const bool has_previous = reader.integer<std::uint8_t>() != 0;
        if (version > UINT64_MAX / 4 || (version == 0 && has_previous))
          refuse_snapshot(fmt::format("has a slice at version {}", version));
        result->segment().set_version(slice, version);
        auto bytes = std::as_bytes(std::span(pieces.rest()));
        const std::uint64_t own = result->state_bytes(slice);
        if (has_previous) {
          const std::uint64_t values = value_bytes(result->segment().shape(slice));
          if (bytes.size() != own + values)
            refuse_snapshot(
                fmt::format("has {} bytes for a slice of {}", bytes.size(), own + values));
          std::ranges::copy(bytes.subspan(own), result->segment().add_previous(slice).values);
          bytes = bytes.first(own);
        }
        result->set_slice(slice, updates, bytes);
        std::ranges::copy(ledger, result->segment().current(slice).ledger.begin());
        break;
      }
      case Piece::table: {
        const int table = expect_number(reader, tables++, table_count, "table");
        const auto version = reader.integer<std::uint64_t>();
        const std::vector<std::uint64_t> ledger = read_ledger(reader, spec.workers);
        reader.expect_end();
        result->table(table).set_progress(version, ledger);
        break;
      }
      case Piece::rows: {
        if (tables == 0) refuse_snapshot("has rows before their table");
        const int table = expect_number(reader, tables - 1, table_count, "rows of table");
        result->table(table).apply_snapshot_piece(pieces.rest());
        break;
      }
      case Piece::end: {
        const auto count = reader.integer<std::uint64_t>();
        reader.expect_end();
        if (slices != slice_count || tables != table_count || count != pieces.count() - 1)
          refuse_snapshot(fmt::format("has {} of {} slices, {} of {} tables and {} of {} pieces",
                                      slices, slice_count, tables, table_count, pieces.count() - 1,
                                      count));
        if (read()) refuse_snapshot("goes on behind its end");
        result->mark_initialised();
        return result;
      }
    }
  }
} catch (const ProtocolError& error) {
  refuse_snapshot("is cut off or damaged: " + error.message());
}

}  // namespace cohort::ps
