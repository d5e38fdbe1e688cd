#include "cohort/ps/durable/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/ps/durable/log_folder.h"

namespace cohort::ps {
namespace {

[[noreturn]] void fail_snapshot(const char* what, const std::filesystem::path& path) {
  throw SystemError(fmt::format("cannot {} '{}'", what, path.string()), errno);
}

void write_all(int file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_snapshot("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A file that is deleted unless it is kept.
struct Temporary {
  std::filesystem::path path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

}  // namespace

bool write_snapshot_file(const std::filesystem::path& folder, const LogFileHeader& header,
                         std::span<const std::string> pieces,
                         const std::function<bool()>& stopped) {
  std::filesystem::path path = snapshot_path(folder, header.number);
  Temporary temporary{path.string() + ".tmp"};
  UniqueFd file(::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) fail_snapshot("create", temporary.path);
  write_all(file.get(), encode_header(LogFileKind::snapshot, header), temporary.path);
  for (const std::string& piece : pieces) {
    if (stopped()) return false;
    write_all(file.get(), encode_piece_prefix(PieceKind::piece, piece), temporary.path);
    write_all(file.get(), piece, temporary.path);
  }
  std::string count;
  ByteWriter(count).integer(std::uint64_t{pieces.size()});
  write_all(file.get(), encode_piece_prefix(PieceKind::end, count) + count, temporary.path);
  if (::fsync(file.get()) != 0) fail_snapshot("sync", temporary.path);
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) fail_snapshot("create", path);
  temporary.kept = true;
  sync_folder(folder);
  return true;
}

SnapshotReader::SnapshotReader(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) fail_snapshot("read", path_);
  left_ = static_cast<std::uint64_t>(status.st_size);
  header_ = decode_header(LogFileKind::snapshot, read_bytes(kLogHeaderBytes));
}

std::string SnapshotReader::read_bytes(std::size_t count) {
  if (count > left_) throw ProtocolError("it ends too early");
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    ssize_t got = ::read(file_.get(), bytes.data() + have, count - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_snapshot("read", path_);
    if (got == 0) throw ProtocolError("it ends too early");
    have += static_cast<std::size_t>(got);
  }
  left_ -= count;
  return bytes;
}

std::optional<std::string> SnapshotReader::next() {
  PiecePrefix prefix = decode_piece_prefix(read_bytes(kPiecePrefixBytes));
  std::string bytes = read_bytes(prefix.length);
  if (piece_crc(prefix.kind, bytes) != prefix.crc)
    throw ProtocolError(fmt::format("piece {} has a wrong checksum", pieces_));
  if (prefix.kind == PieceKind::piece) {
    ++pieces_;
    return bytes;
  }
  ByteReader reader(bytes);
  if (reader.integer<std::uint64_t>() != pieces_ || reader.remaining() != 0 || left_ != 0)
    throw ProtocolError("its end mark does not fit");
  return std::nullopt;
}

}  // namespace cohort::ps
