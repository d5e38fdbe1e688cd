#include "cohort/ps/table/sparse_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "cohort/base/message_of_test.h"
#include "cohort/ps/table/memory_limit.h"
#include "cohort/ps/table/reference_table_test.h"
#include "cohort/ps/table/table_arena_test.h"

namespace cohort::ps {
namespace {

constexpr double kLr = 0.1;

TableSpec spec_of(int dimension, int admit_after = 1, std::uint64_t keep_for = 0) {
  TableSpec spec;
  spec.name = "users";
  spec.dimension = dimension;
  spec.admit_after = admit_after;
  spec.keep_for = keep_for;
  return spec;
}

UpdateRule adam() {
  UpdateRule rule;
  rule.kind = UpdateRule::Kind::adam;
  return rule;
}

void update(SparseTable& table, const RowGradients& gradients) {
  const std::pair<int, std::uint64_t> ledger[] = {{0, table.version() + 1}};
  EXPECT_TRUE(table.prepare(gradients, kLr, table.version() + 1, ledger));
  table.commit();
}

std::vector<float> read(const SparseTable& table, std::span<const std::uint64_t> keys) {
  std::vector<float> values(keys.size() * std::size_t(table.spec().dimension));
  table.read(keys, values.data());
  return values;
}

std::vector<std::uint64_t> keys_below(std::uint64_t count, std::uint64_t stride = 1) {
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t i = 0; i < count; ++i) keys[i] = i * stride;
  return keys;
}

std::string snapshot_of(const SparseTable& table) {
  std::string all;
  table.write_snapshot([&](std::string_view piece) { all += piece; });
  return all;
}

TEST(SparseTable, UpdatesAreThoseOfThePlainestTable) {
  UpdateRule momentum;
  momentum.momentum = 0.9;
  for (const UpdateRule& rule : {UpdateRule{}, momentum, adam()})
    for (int admit_after : {1, 3})
      for (std::uint64_t keep_for : {0, 5}) {
        const TableSpec spec = spec_of(3, admit_after, keep_for);
        ArenaOfTest arena;
        auto table = SparseTable::create(spec, rule, 1, arena.arena(), 0);
        ReferenceTable reference(spec, rule);
        const auto keys = keys_below(3000);
        for (std::uint64_t version = 1; version <= 60; ++version) {
          const RowGradients gradients = some_gradients(version, 40, 50 * version, 3);
          update(*table, gradients);
          reference.update(gradients, kLr, version);
          ASSERT_EQ(read(*table, keys), reference.read(keys)) << "version " << version;
        }
        EXPECT_GE(table->rows(), reference.live());
      }
}

TEST(SparseTable, ARowThatWasNeverPushedReadsAsItsBeginning) {
  ArenaOfTest one, other;
  auto table = SparseTable::create(spec_of(4), {}, 1, one.arena(), 0);
  auto late = SparseTable::create(spec_of(4, 2), {}, 1, other.arena(), 0);
  const std::uint64_t keys[] = {0, 1, ~std::uint64_t{0}};
  const auto values = read(*table, keys);
  for (float value : values) EXPECT_LE(std::abs(value), 0.01f);
  EXPECT_NE(values[0], values[4]);
  EXPECT_EQ(read(*late, keys), std::vector<float>(12, 0));
  EXPECT_EQ(table->rows(), 0u);
}

TEST(SparseTable, VersionAndLedgerCountFromTheCommit) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(2), {}, 3, arena.arena(), 0, 7);
  const std::pair<int, std::uint64_t> ledger[] = {{2, 8}};
  table->prepare({{1}, {1, 1}}, kLr, 8, ledger);
  EXPECT_EQ(table->version(), 7u);
  EXPECT_EQ(table->ledger(2), 7u);
  table->commit();
  EXPECT_EQ(table->version(), 8u);
  EXPECT_EQ(table->ledger(2), 8u);
  EXPECT_EQ(table->ledger(1), 7u);
}

TEST(SparseTable, RollBackLeavesNothingBehind) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(3, 2, 4), adam(), 1, arena.arena(), 0);
  for (std::uint64_t version = 1; version <= 30; ++version) {
    const std::string before = snapshot_of(*table);
    const auto rows = table->rows();
    table->prepare(some_gradients(version + 1000, 500, 3000, 3), kLr, version, {});
    table->roll_back();
    ASSERT_EQ(snapshot_of(*table), before);
    ASSERT_LE(table->rows(), rows);
    update(*table, some_gradients(version, 100, 500, 3));
  }
}

TEST(SparseTable, AGradientThatIsNotFiniteIsReported) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int admit_after : {1, 2}) {
    ArenaOfTest arena;
    auto table = SparseTable::create(spec_of(2, admit_after), {}, 1, arena.arena(), 0);
    EXPECT_FALSE(table->prepare({{1, 2}, {1, nan, 1, 1}}, kLr, 1, {}));
    table->roll_back();
    EXPECT_EQ(table->rows() + table->candidates(), 0u);
  }
}

TEST(SparseTable, KeysOfOneUpdateMayRepeat) {
  ArenaOfTest one, other;
  auto table = SparseTable::create(spec_of(1), adam(), 1, one.arena(), 0);
  auto summed = SparseTable::create(spec_of(1), adam(), 1, other.arena(), 0);
  update(*table, {{9, 4, 9}, {1, 2, 3}});
  update(*summed, {{4, 9}, {2, 4}});
  EXPECT_EQ(snapshot_of(*table), snapshot_of(*summed));
}

TEST(SparseTable, AKeyOutsideAFixedTableIsNamed) {
  TableSpec spec = spec_of(1);
  spec.rows = 10;
  ArenaOfTest arena;
  auto table = SparseTable::create(spec, {}, 1, arena.arena(), 0);
  EXPECT_EQ(message_of<InvalidInput>([&] {
              table->prepare({{3, 10}, {1, 1}}, kLr, 1, {});
            }),
            "key 10 of table 'users', which has rows 0 to 9. Give the table more rows, or rows = 0 "
            "for any key.");
  EXPECT_EQ(table->rows(), 0u);
  EXPECT_THROW(table->prepare({{3}, {1, 1}}, kLr, 1, {}), InvalidInput);
}

TEST(SparseTable, AllCandidatesMayBecomeRowsInOneUpdate) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(1, 2), {}, 1, arena.arena(), 0);
  const RowGradients gradients{keys_below(20'000), std::vector<float>(20'000, 1)};
  update(*table, gradients);
  EXPECT_EQ(table->candidates(), 20'000u);
  update(*table, gradients);
  EXPECT_EQ(table->rows(), 20'000u);
  EXPECT_EQ(table->candidates(), 0u);
}

TEST(SparseTable, MemoryOfOldRowsIsUsedAgain) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(16, 1, 3), adam(), 1, arena.arena(), 0);
  const auto pass = [&](std::uint64_t first) {
    RowGradients gradients{keys_below(1000), std::vector<float>(16000, 1)};
    for (auto& key : gradients.keys) key += first;
    update(*table, gradients);
  };
  for (std::uint64_t i = 0; i < 20; ++i) pass(i * 1000);
  const auto bytes = table->bytes();
  for (std::uint64_t i = 20; i < 200; ++i) pass(i * 1000);
  EXPECT_EQ(table->bytes(), bytes);
  EXPECT_LE(table->rows(), 8000u);
}

TEST(SparseTable, ASnapshotMakesAnEqualTable) {
  const TableSpec spec = spec_of(16, 2, 6);
  ArenaOfTest one, other;
  auto table = SparseTable::create(spec, adam(), 2, one.arena(), 0);
  for (std::uint64_t version = 1; version <= 20; ++version)
    update(*table, some_gradients(version, 4000, 20000, 16));
  ASSERT_GT(table->candidates(), 0u);

  auto copy = SparseTable::create(spec, adam(), 2, other.arena(), 0);
  copy->set_progress(table->version(), std::vector{table->ledger(0), table->ledger(1)});
  int pieces = 0;
  table->write_snapshot([&](std::string_view piece) {
    copy->apply_snapshot_piece(piece);
    ++pieces;
  });
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(copy->ledger(0), 20u);
  for (std::uint64_t version = 21; version <= 40; ++version) {
    ASSERT_EQ(snapshot_of(*copy), snapshot_of(*table)) << "version " << version;
    update(*table, some_gradients(version, 4000, 20000, 16));
    update(*copy, some_gradients(version, 4000, 20000, 16));
  }
}

TEST(SparseTable, AnImageMayBeSpreadOverOtherServersAndVersions) {
  const TableSpec spec = spec_of(2, 1, 10);
  ArenaOfTest one;
  auto table = SparseTable::create(spec, {}, 1, one.arena(), 0);
  for (int i = 0; i < 5; ++i) update(*table, {keys_below(100), std::vector<float>(200, 1)});
  for (int part = 0; part < 2; ++part) {
    ArenaOfTest arena;
    auto share = SparseTable::create(spec, {}, 4, arena.arena(), 0, 1000);
    table->write_snapshot([&](std::string_view piece) {
      share->apply_snapshot_piece(piece, [&](std::uint64_t key) { return int(key % 2) == part; });
    });
    EXPECT_EQ(share->rows(), 50u);
    EXPECT_EQ(share->version(), 1000u);
    const std::vector<std::uint64_t> mine = {std::uint64_t(part), 50 + std::uint64_t(part)};
    EXPECT_EQ(read(*share, mine), read(*table, mine));
  }
}

TEST(SparseTable, APieceThatDoesNotFitChangesNothing) {
  ArenaOfTest one, other, third;
  auto table = SparseTable::create(spec_of(2), {}, 1, one.arena(), 0);
  update(*table, {keys_below(10), std::vector<float>(20, 1)});
  const std::string piece = snapshot_of(*table);
  auto same = SparseTable::create(spec_of(2), {}, 1, other.arena(), 0);
  for (std::size_t size = 0; size < piece.size(); ++size)
    EXPECT_THROW(same->apply_snapshot_piece(piece.substr(0, size)), InvalidInput) << size;
  EXPECT_THROW(same->apply_snapshot_piece(piece + "x"), InvalidInput);
  EXPECT_EQ(same->rows(), 0u);
  same->apply_snapshot_piece(piece);
  EXPECT_THROW(same->apply_snapshot_piece(piece), InvalidInput);
  EXPECT_EQ(snapshot_of(*same), piece);
  auto wide = SparseTable::create(spec_of(3), {}, 1, third.arena(), 0);
  EXPECT_EQ(message_of<InvalidInput>([&] { wide->apply_snapshot_piece(piece); }),
            "a piece of table 'users' has dimension 2 and 0 slots of an optimizer, not 3 and 0");
}

TEST(SparseTable, OverTheMemoryLimitNothingChanges) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(64), adam(), 1, arena.arena(), 2'000'000);
  RowGradients gradients{keys_below(200), std::vector<float>(200 * 64, 1)};
  std::string message;
  for (int i = 0; i < 100 && message.empty(); ++i) {
    const std::string before = snapshot_of(*table);
    try {
      update(*table, gradients);
    } catch (const MemoryLimit& error) {
      message = error.what();
      EXPECT_EQ(snapshot_of(*table), before);
    }
    for (auto& key : gradients.keys) key += 200;
  }
  EXPECT_NE(message.find("table 'users' has "), std::string::npos) << message;
  EXPECT_NE(message.find(" rows in "), std::string::npos) << message;
  EXPECT_NE(message.find("over its limit of 2000000 bytes. Use more servers or a higher "
                         "--ps_memory_limit."),
            std::string::npos)
      << message;
  EXPECT_LE(table->bytes(), 2'000'000u);
  EXPECT_GE(table->rows(), 800u);
  update(*table, {keys_below(200), std::vector<float>(200 * 64, 1)});  // what is there goes on
}

TEST(SparseTable, OldRowsMakeWayAtTheMemoryLimit) {
  ArenaOfTest arena;
  auto table = SparseTable::create(spec_of(64, 1, 1000), adam(), 1, arena.arena(), 2'000'000);
  RowGradients gradients{keys_below(800), std::vector<float>(800 * 64, 1)};
  update(*table, gradients);
  table->set_progress(5000, std::vector<std::uint64_t>{1});
  for (auto& key : gradients.keys) key += 800;
  update(*table, gradients);
  EXPECT_EQ(table->rows(), 800u);
}

TEST(SparseTable, KeysThatCollideModuloAPowerOfTwoCostNoMore) {
  const auto seconds = [](std::uint64_t stride) {
    ArenaOfTest arena;
    auto table = SparseTable::create(spec_of(1), {}, 1, arena.arena(), 0);
    const RowGradients gradients{keys_below(50'000, stride), std::vector<float>(50'000, 1)};
    const auto start = std::chrono::steady_clock::now();
    update(*table, gradients);
    read(*table, gradients.keys);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double plain = seconds(1), hostile = seconds(std::uint64_t{1} << 40);
  for (int i = 0; i < 3; ++i) {
    plain = std::min(plain, seconds(1));
    hostile = std::min(hostile, seconds(std::uint64_t{1} << 40));
  }
  EXPECT_LT(hostile, 5 * plain);  // without a good hash: thousands of times
}

TEST(SparseTable, MemoryOfAnotherTableIsRefused) {
  ArenaOfTest arena;
  EXPECT_THROW(SparseTable::open(spec_of(2), {}, 1, arena.arena(), 0), InvalidInput);
  SparseTable::create(spec_of(2), {}, 1, arena.arena(), 0);
  EXPECT_EQ(
      message_of<InvalidInput>([&] { SparseTable::open(spec_of(4), adam(), 3, arena.arena(), 0); }),
      "the memory given for table 'users' holds one of dimension 2 with 0 slots for 1 "
      "workers, not of dimension 4 with 2 slots for 3 workers");
}

}  // namespace
}  // namespace cohort::ps
