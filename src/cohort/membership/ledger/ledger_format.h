#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/membership/ledger/ledger.h"

// The bytes of a ledger (docs/formats.md). Internal to ledger_file.cpp and its tests. Pure
// functions.
namespace cohort::membership {

inline constexpr std::size_t kLedgerHeaderBytes = 64;

std::string encode_header(const LedgerPlan& plan);
// InvalidInput: no ledger, one of another format, or damaged.
LedgerPlan decode_header(std::string_view bytes, const std::string& path);

// Of every record of such a ledger.
std::size_t record_bytes(const LedgerPlan& plan);

// Replaces `out`. InvalidInput where a value does not fit.
void encode_record(const LedgerPlan& plan, const LedgerRecord& record, std::string& out);
void encode_rewind(const LedgerPlan& plan, std::int64_t step, std::string& out);

struct DecodedRecord {
  bool is_rewind = false;  // then only the step counts
  LedgerRecord record;
};
// Of record_bytes(); nothing where the checksum does not hold.
std::optional<DecodedRecord> decode_record(const LedgerPlan& plan, std::string_view bytes);

}  // namespace cohort::membership
