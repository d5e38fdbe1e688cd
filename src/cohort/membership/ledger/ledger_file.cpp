#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/membership/ledger/ledger.h"
#include "cohort/membership/ledger/ledger_format.h"

namespace cohort::membership {
namespace {

// So far from its end a record may stand that a chief wrote after it had been shut out.
constexpr std::int64_t kStaleRecords = 64;

std::string difference(const LedgerPlan& found, const LedgerPlan& wanted) {
  if (found.samples != wanted.samples)
    return fmt::format("{} samples an epoch, not {}", found.samples, wanted.samples);
  if (found.batch != wanted.batch)
    return fmt::format("batches of {}, not {}", found.batch, wanted.batch);
  if (found.shards != wanted.shards)
    return fmt::format("{} shards a step, not {}", found.shards, wanted.shards);
  if (found.seed != wanted.seed) return fmt::format("seed {}, not {}", found.seed, wanted.seed);
  if (found.shuffle != wanted.shuffle)
    return found.shuffle ? "samples in another order each epoch, not as they are"
                         : "samples as they are, not in another order each epoch";
  return fmt::format("{} steps an epoch, not {}", found.steps_per_epoch, wanted.steps_per_epoch);
}

std::int64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? static_cast<std::int64_t>(status.st_size) : -1;
}

}  // namespace

LedgerWriter::LedgerWriter(const std::filesystem::path& path, const LedgerPlan& plan)
    : path_(path),
      file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
      plan_(plan) {
  if (!file_) fail("open");
  begin_or_check();
  cut_torn_tail();
}

void LedgerWriter::fail(const char* action) const {
  throw SystemError(fmt::format("cannot {} the ledger '{}'", action, path_.string()), errno);
}

void LedgerWriter::begin_or_check() {
  std::string header = encode_header(plan_);
  std::string found = read_at(0, kLedgerHeaderBytes);
  if (found.size() < kLedgerHeaderBytes && header.starts_with(found)) {
    // New, or its maker died over it.
    if (!found.empty() && ::ftruncate(file_.get(), 0) != 0) fail("cut");
    return write(header);
  }
  LedgerPlan theirs = decode_header(found, path_.string());
  if (theirs != plan_)
    throw InvalidInput(fmt::format("the ledger '{}' is of another training: {}", path_.string(),
                                   difference(theirs, plan_)),
                       {.advice = "Use a new output folder, or train as before."});
}

void LedgerWriter::cut_torn_tail() {
  auto bytes = static_cast<std::int64_t>(record_bytes(plan_));
  for (;;) {
    std::int64_t size = size_of(file_.get());
    if (size < 0) fail("read");
    std::int64_t begin = kLedgerHeaderBytes;
    std::int64_t records = (size - begin) / bytes;
    while (records > 0 && !decode_record(plan_, read_at(begin + (records - 1) * bytes,
                                                        static_cast<std::size_t>(bytes))))
      --records;
    std::int64_t end = begin + records * bytes;
    if (end == size) return find_last_step(records);
    // A writer that still appends has made the tail whole, or moved it: look again.
    if (size_of(file_.get()) != size) continue;
    if (::ftruncate(file_.get(), static_cast<off_t>(end)) != 0) fail("cut");
  }
}

void LedgerWriter::find_last_step(std::int64_t records) {
  std::int64_t bytes = static_cast<std::int64_t>(record_bytes(plan_));
  std::int64_t first = std::max<std::int64_t>(0, records - kStaleRecords);
  for (std::int64_t i = records - 1; i >= first; --i) {
    auto place = static_cast<std::int64_t>(kLedgerHeaderBytes) + i * bytes;
    auto decoded = decode_record(plan_, read_at(place, static_cast<std::size_t>(bytes)));
    if (!decoded) return;  // read_ledger() tells of it
    std::int64_t step = decoded->is_rewind ? decoded->record.step - 1 : decoded->record.step;
    if (step >= 0) note(step, decoded->record.view);
    if (decoded->is_rewind) return;
  }
}

std::string LedgerWriter::read_at(std::int64_t place, std::size_t bytes) const {
  std::string out(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    ssize_t got = ::pread(file_.get(), out.data() + have, bytes - have,
                          static_cast<off_t>(place) + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return out;
}

void LedgerWriter::write(const std::string& bytes) {
  ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
  while (written < 0 && errno == EINTR) written = ::write(file_.get(), bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return;
  int reason = written < 0 ? errno : ENOSPC;
  // No half record may stay in the middle.
  off_t end = ::lseek(file_.get(), 0, SEEK_CUR);
  if (written > 0 && size_of(file_.get()) == static_cast<std::int64_t>(end) &&
      ::ftruncate(file_.get(), end - written) != 0)
    reason = errno;
  errno = reason;
  fail("write");
}

void LedgerWriter::append(const LedgerRecord& record) {
  encode_record(plan_, record, buffer_);
  write(buffer_);
  note(record.step, record.view);
}

void LedgerWriter::note(std::int64_t step, std::uint64_t view) {
  if (last_step_ && *last_step_ > step) return;
  last_view_ = last_step_ == step ? std::max(last_view_, view) : view;
  last_step_ = step;
}

bool LedgerWriter::lacks(const LedgerRecord& record) const {
  return !last_step_ || *last_step_ < record.step ||
         (*last_step_ == record.step && last_view_ < record.view);
}

void LedgerWriter::rewind(std::int64_t step) {
  encode_rewind(plan_, step, buffer_);
  write(buffer_);
  last_step_ = step > 0 ? std::optional(step - 1) : std::nullopt;
  last_view_ = 0;
}

void LedgerWriter::sync() {
  if (::fdatasync(file_.get()) != 0) fail("sync");
}

Ledger read_ledger(const std::filesystem::path& path) {
  std::string text = read_file(path);
  Ledger ledger;
  ledger.plan = decode_header(text, path.string());
  std::size_t bytes = record_bytes(ledger.plan);
  std::size_t records = (text.size() - kLedgerHeaderBytes) / bytes;
  auto at = [&](std::size_t i) { return kLedgerHeaderBytes + i * bytes; };
  auto decode = [&](std::size_t i) {
    return decode_record(ledger.plan, std::string_view(text).substr(at(i), bytes));
  };
  const std::size_t all = records;
  while (records > 0 && !decode(records - 1)) --records;
  ledger.unreadable = all - records;
  ledger.torn = at(records) != text.size();
  ledger.entries.reserve(records);
  int generation = 0;
  for (std::size_t i = 0; i < records; ++i) {
    auto decoded = decode(i);
    if (!decoded)
      throw InvalidInput(
          fmt::format("the ledger '{}' is damaged: the record at byte {} (number {} of {}) does "
                      "not match its checksum",
                      path.string(), at(i), i, records),
          {.advice =
               "Restore the file from a copy; what it says behind that byte proves nothing."});
    if (decoded->is_rewind) {
      ledger.rewinds.push_back(decoded->record.step);
      ++generation;
    } else {
      ledger.entries.push_back({std::move(decoded->record), generation});
    }
  }
  return ledger;
}

}  // namespace cohort::membership
