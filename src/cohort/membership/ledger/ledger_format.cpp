#include "cohort/membership/ledger/ledger_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/data/fields.h"
#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

constexpr std::string_view kMagic = "COHLEDG1";
constexpr std::size_t kFixedBytes = 4 + 1 + 4 + 8 + 8 + 8;
constexpr std::uint8_t kUpdate = 1;
constexpr std::uint8_t kRewind = 2;
constexpr int kMaxShards = 1 << 16;

std::size_t count_width(const LedgerPlan& plan) {
  return plan.batch < 1 << 8 ? 1 : plan.batch < 1 << 16 ? 2 : 4;
}

std::size_t owner_width(const LedgerPlan& plan) { return plan.shards <= 1 << 8 ? 1 : 2; }

void check_fits(std::uint64_t value, std::size_t width, std::string_view what, std::int64_t step) {
  if (value >> (8 * width) == 0) return;
  throw InvalidInput(
      fmt::format("the ledger's record of step {} cannot hold {} {}", step, what, value),
      {.advice = "Give the ledger the plan of this training: batch and shards decide its record."});
}

void check_plan(const LedgerPlan& plan, const std::string& path) {
  if (plan.samples < 0 || plan.batch < 1 || plan.shards < 1 || plan.shards > kMaxShards ||
      plan.batch > std::numeric_limits<std::uint32_t>::max() || plan.steps_per_epoch < 0)
    throw InvalidInput(
        fmt::format("no ledger can be of {} samples, batches of {}, {} shards, {} steps an epoch",
                    plan.samples, plan.batch, plan.shards, plan.steps_per_epoch),
        {.during = path});
}

// The checksum stands first and is of all that follows it.
void seal(std::string& record) {
  put_integer(crc32c(record.data() + 4, record.size() - 4), record.data());
}

// What follows the checksum.
void record_fields(auto& io, const LedgerPlan& plan, auto& kind, auto& record) {
  io(kind), io.narrow(record.epoch, 4), io(record.step), io(record.first), io(record.view);
  for (auto& count : record.counts) io.narrow(count, count_width(plan));
  for (auto& owner : record.owners) io.narrow(owner, owner_width(plan));
}

LedgerRecord blank_record(const LedgerPlan& plan) {
  const auto shards = static_cast<std::size_t>(plan.shards);
  LedgerRecord record;
  record.counts.resize(shards);
  record.owners.resize(shards);
  return record;
}

void write_record(const LedgerPlan& plan, std::uint8_t kind, const LedgerRecord& record,
                  std::string& out) {
  out.assign(4, '\0');
  FieldWriter writer(out);
  record_fields(writer, plan, kind, record);
  seal(out);
}

}  // namespace

std::int64_t LedgerPlan::used_samples() const {
  if (steps_per_epoch == 0 || batch == 0 || steps_per_epoch > samples / batch) return samples;
  return steps_per_epoch * batch;
}

void fields(auto& io, MessageOf<LedgerPlan> auto& plan) {
  std::uint32_t shuffle = plan.shuffle ? 1 : 0;
  std::uint64_t reserved = 0;
  std::uint32_t reserved_too = 0;
  io(plan.samples), io(plan.batch), io(plan.shards), io(shuffle), io(plan.seed);
  io(plan.steps_per_epoch), io(reserved), io(reserved_too);
  if constexpr (std::remove_reference_t<decltype(io)>::kReads) plan.shuffle = shuffle != 0;
}

std::string encode_header(const LedgerPlan& plan) {
  check_plan(plan, "");
  std::string out(kMagic);
  FieldWriter write(out);
  write(plan), write(crc32c(out.data(), out.size()));
  return out;
}

LedgerPlan decode_header(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kLedgerHeaderBytes || !bytes.starts_with(kMagic))
    throw InvalidInput(
        fmt::format("'{}' is no ledger", path),
        {.advice = "A training's ledger is the file `ledger` of its output folder."});
  bytes = bytes.substr(0, kLedgerHeaderBytes);
  FieldReader read(bytes.substr(kMagic.size()));
  LedgerPlan plan;
  std::uint32_t crc = 0;
  read(plan), read(crc);
  if (crc != crc32c(bytes.data(), kLedgerHeaderBytes - sizeof crc))
    throw InvalidInput(
        fmt::format("the ledger '{}' is damaged in its first {} bytes", path, kLedgerHeaderBytes));
  check_plan(plan, path);
  return plan;
}

std::size_t record_bytes(const LedgerPlan& plan) {
  return kFixedBytes +
         static_cast<std::size_t>(plan.shards) * (count_width(plan) + owner_width(plan));
}

void encode_record(const LedgerPlan& plan, const LedgerRecord& record, std::string& out) {
  auto shards = static_cast<std::size_t>(plan.shards);
  if (record.counts.size() != shards || record.owners.size() != shards)
    throw InvalidInput(
        fmt::format("the ledger's record of step {} has {} counts and {} owners for {} shards",
                    record.step, record.counts.size(), record.owners.size(), shards));
  check_fits(static_cast<std::uint64_t>(record.epoch), 4, "epoch", record.step);
  for (std::uint32_t count : record.counts)
    check_fits(count, count_width(plan), "the number of samples", record.step);
  for (std::uint16_t owner : record.owners)
    check_fits(owner, owner_width(plan), "rank", record.step);

  write_record(plan, kUpdate, record, out);
}

void encode_rewind(const LedgerPlan& plan, std::int64_t step, std::string& out) {
  LedgerRecord record = blank_record(plan);
  record.step = step;
  write_record(plan, kRewind, record, out);
}

std::optional<DecodedRecord> decode_record(const LedgerPlan& plan, std::string_view bytes) {
  if (bytes.size() != record_bytes(plan)) return std::nullopt;
  if (get_integer<std::uint32_t>(bytes.data()) != crc32c(bytes.data() + 4, bytes.size() - 4))
    return std::nullopt;
  FieldReader reader(bytes.substr(4));
  std::uint8_t kind = 0;
  DecodedRecord decoded{.record = blank_record(plan)};
  record_fields(reader, plan, kind, decoded.record);
  if (kind != kUpdate && kind != kRewind) return std::nullopt;
  decoded.is_rewind = kind == kRewind;
  return decoded;
}

}  // namespace cohort::membership
