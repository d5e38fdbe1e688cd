#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::collective {

enum class HostAllReduce { exchange_all, recursive_doubling, reduce_scatter };
enum class HostBroadcast { flat, binomial };

// Which algorithm a call takes, by the bytes of a rank's buffer and the number of ranks or hosts.
// No choice changes a bit of any result, only its time; what the algorithms do stands in
// docs/algorithms.md. `cohort tune` measures a table and writes it; COHORT_TUNING=FILE uses it.
// All ranks of a group use the table of its rank 0.
//
// A value; immutable once a group is formed with it.
struct TuningTable {
  // From `from` ranks or hosts on: messages of at most `bytes`; 0: none.
  struct Rule {
    int from = 2;
    std::size_t bytes = 0;

    bool operator==(const Rule&) const = default;
  };
  using Rules = std::vector<Rule>;  // ascending by `from`; the last one that applies counts

  static constexpr std::size_t kMaxInlined = 4096;
  static constexpr std::size_t kMaxSmall = 1 << 20;
  static constexpr int kMaxFrom = 1 << 20;

  // all_reduce inside a host, instead of direct; at most kMaxInlined. Never instead of staged,
  // which is slower than inlined at all sizes that fit.
  Rules inlined = {{2, kMaxInlined}};
  Rules exchange_all = {{2, 64 << 10}, {3, 4096}, {5, 1024}, {9, 0}};  // at most kMaxSmall
  Rules recursive_doubling = {{3, 256 << 10},
                              {5, 64 << 10}};  // where not exchange_all; at most kMaxSmall
  Rules flat_broadcast = {{2, 64 << 10}, {5, 4096}, {9, 0}};

  std::size_t inline_bytes(int ranks) const;
  HostAllReduce all_reduce(int hosts, std::size_t bytes) const;
  HostBroadcast broadcast(int hosts, std::size_t bytes) const;

  // JSON, one line when `pretty` is false.
  std::string to_json(bool pretty) const;
  // Keys that are left out keep their defaults. Throws InvalidInput that names `source`, the key,
  // the value and the fix.
  static TuningTable from_json(std::string_view text, const std::string& source);
  static TuningTable read(const std::filesystem::path& file);

  bool operator==(const TuningTable&) const = default;
};

}  // namespace cohort::collective
