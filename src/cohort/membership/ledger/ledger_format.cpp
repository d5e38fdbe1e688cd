#include "cohort/membership/ledger/ledger_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

constexpr std::string_view kMagic = "COHLEDG1";
constexpr std::size_t kFixedBytes = 4 + 1 + 4 + 8 + 8 + 8;
constexpr char kUpdate = 1;
constexpr char kRewind = 2;
constexpr int kMaxShards = 1 << 16;

std::size_t count_width(const LedgerPlan& plan) {
  return plan.batch < 1 << 8 ? 1 : plan.batch < 1 << 16 ? 2 : 4;
}

std::size_t owner_width(const LedgerPlan& plan) { return plan.shards <= 1 << 8 ? 1 : 2; }

void put(std::string& out, std::uint64_t value, std::size_t width) {
  char bytes[8];
  put_integer(value, bytes);
  out.append(bytes, width);
}

std::uint64_t get(std::string_view& in, std::size_t width) {
  char bytes[8] = {};
  in.copy(bytes, width);
  in.remove_prefix(width);
  return get_integer<std::uint64_t>(bytes);
}

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

}  // namespace

std::int64_t LedgerPlan::used_samples() const {
  if (steps_per_epoch == 0 || batch == 0 || steps_per_epoch > samples / batch) return samples;
  return steps_per_epoch * batch;
}

std::string encode_header(const LedgerPlan& plan) {
  check_plan(plan, "");
  std::string out(kMagic);
  ByteWriter(out)
      .integer(plan.samples)
      .integer(plan.batch)
      .integer(static_cast<std::uint32_t>(plan.shards))
      .integer(static_cast<std::uint32_t>(plan.shuffle ? 1 : 0))
      .integer(plan.seed)
      .integer(plan.steps_per_epoch)
      .integer(std::uint64_t{0})
      .integer(std::uint32_t{0});
  ByteWriter(out).integer(crc32c(out.data(), out.size()));
  return out;
}

LedgerPlan decode_header(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kLedgerHeaderBytes || !bytes.starts_with(kMagic))
    throw InvalidInput(
        fmt::format("'{}' is no ledger", path),
        {.advice = "A training's ledger is the file `ledger` of its output folder."});
  bytes = bytes.substr(0, kLedgerHeaderBytes);
  ByteReader reader(bytes.substr(kMagic.size()));
  LedgerPlan plan;
  plan.samples = reader.integer<std::int64_t>();
  plan.batch = reader.integer<std::int64_t>();
  plan.shards = reader.integer<std::int32_t>();
  plan.shuffle = reader.integer<std::uint32_t>() != 0;
  plan.seed = reader.integer<std::uint64_t>();
  plan.steps_per_epoch = reader.integer<std::int64_t>();
  reader.integer<std::uint64_t>();
  reader.integer<std::uint32_t>();
  if (reader.integer<std::uint32_t>() != crc32c(bytes.data(), kLedgerHeaderBytes - 4))
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

  out.assign(4, '\0');
  out.push_back(kUpdate);
  put(out, static_cast<std::uint64_t>(record.epoch), 4);
  put(out, static_cast<std::uint64_t>(record.step), 8);
  put(out, static_cast<std::uint64_t>(record.first), 8);
  put(out, record.view, 8);
  for (std::uint32_t count : record.counts) put(out, count, count_width(plan));
  for (std::uint16_t owner : record.owners) put(out, owner, owner_width(plan));
  seal(out);
}

void encode_rewind(const LedgerPlan& plan, std::int64_t step, std::string& out) {
  out.assign(record_bytes(plan), '\0');
  out[4] = kRewind;
  put_integer(static_cast<std::uint64_t>(step), out.data() + 9);
  seal(out);
}

std::optional<DecodedRecord> decode_record(const LedgerPlan& plan, std::string_view bytes) {
  if (bytes.size() != record_bytes(plan)) return std::nullopt;
  if (get_integer<std::uint32_t>(bytes.data()) != crc32c(bytes.data() + 4, bytes.size() - 4))
    return std::nullopt;
  char kind = bytes[4];
  if (kind != kUpdate && kind != kRewind) return std::nullopt;
  bytes.remove_prefix(5);
  DecodedRecord decoded{.is_rewind = kind == kRewind, .record = {}};
  LedgerRecord& record = decoded.record;
  record.epoch = static_cast<std::int64_t>(get(bytes, 4));
  record.step = static_cast<std::int64_t>(get(bytes, 8));
  record.first = static_cast<std::int64_t>(get(bytes, 8));
  record.view = get(bytes, 8);
  if (decoded.is_rewind) return decoded;
  record.counts.resize(static_cast<std::size_t>(plan.shards));
  record.owners.resize(static_cast<std::size_t>(plan.shards));
  for (auto& count : record.counts)
    count = static_cast<std::uint32_t>(get(bytes, count_width(plan)));
  for (auto& owner : record.owners)
    owner = static_cast<std::uint16_t>(get(bytes, owner_width(plan)));
  return decoded;
}

}  // namespace cohort::membership
