#include "cohort/ps/state/server_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <deque>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {
namespace {

using ::testing::HasSubstr;

UniqueFd kept_memory_file() { return UniqueFd(::memfd_create("ps-test", MFD_CLOEXEC)); }

ModelSpec sample(bool with_table = false) {
  ModelSpec spec;
  spec.workers = 2;
  spec.shards = 2;
  spec.groups = {{.kind = UpdateRule::Kind::sgd, .lr = 0.5},
                 {.kind = UpdateRule::Kind::adagrad, .lr = 0.1, .initial_accumulator = 0.25}};
  spec.blocks = {{ElementType::f32, 40, {{"a", 0, 10, 0}, {"b", 10, 10, 0}, {"c", 32, 8, 1}}},
                 {ElementType::f64, 5, {{"d", 0, 5, 1}}}};
  if (with_table) spec.tables = {{.name = "users", .dimension = 4, .group = 0}};
  return spec;
}

template <typename T>
std::vector<std::byte> gradient(std::size_t elements, T value) {
  std::vector<T> values(elements, value);
  std::vector<std::byte> bytes(elements * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

UpdateRecord record_of(int slice, std::uint64_t version, std::span<const std::byte> payload) {
  return {.kind = UpdateRecord::Kind::dense,
          .target = slice,
          .version = version,
          .learning_rates = {0.5, 0.1},
          .ledger = {{1, version}},
          .payload = payload};
}

std::vector<float> values_of(ServerState& state, int slice) {
  std::vector<float> values(state.segment().shape(slice).elements);
  std::memcpy(values.data(), state.segment().current(slice).values, values.size() * sizeof(float));
  return values;
}

std::vector<std::string> snapshot_of(const ServerState& state) {
  std::vector<std::string> pieces;
  write_snapshot(state, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::unique_ptr<ServerState> from_pieces(int file, const std::vector<std::string>& pieces) {
  std::deque<std::string> rest(pieces.begin(), pieces.end());
  return state_from_snapshot(file, {}, [&]() -> std::optional<std::string> {
    if (rest.empty()) return std::nullopt;
    std::string piece = std::move(rest.front());
    rest.pop_front();
    return piece;
  });
}

TEST(ServerStateTest, AnUpdateCountsWhenItIsPublished) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(), 7, {});
  state->mark_initialised();
  const auto payload = gradient<float>(40, 2);
  const UpdateRecord record = record_of(0, 8, payload);
  EXPECT_EQ(state->version(record), 7u);
  EXPECT_TRUE(state->prepare(record));
  EXPECT_EQ(state->version(record), 7u);
  EXPECT_EQ(values_of(*state, 0)[0], 0);
  state->publish(record);
  EXPECT_EQ(state->version(record), 8u);
  EXPECT_EQ(values_of(*state, 0)[19], -1);
  EXPECT_EQ(values_of(*state, 0)[20], 0) << "padding";
  EXPECT_NEAR(values_of(*state, 0)[32], -0.1 * 2 / std::sqrt(4.25), 1e-6);
  EXPECT_EQ(state->segment().current(0).ledger[0], 7u);
  EXPECT_EQ(state->segment().current(0).ledger[1], 8u);
  EXPECT_EQ(*state->segment().current(0).updates, 1u);
}

TEST(ServerStateTest, AnAbandonedUpdateNeverWas) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(), 0, {});
  auto payload = gradient<float>(40, std::nanf(""));
  EXPECT_FALSE(state->prepare(record_of(0, 1, payload)));
  state->abandon(record_of(0, 1, payload));
  payload = gradient<float>(40, 2);
  EXPECT_TRUE(state->prepare(record_of(0, 1, payload)));
  state->publish(record_of(0, 1, payload));
  EXPECT_EQ(values_of(*state, 0)[0], -1);
}

TEST(ServerStateTest, ARecordWithoutGradientAdvancesOnlyVersionAndLedger) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(), 0, {});
  const auto payload = gradient<float>(40, 2);
  state->prepare(record_of(0, 1, payload));
  state->publish(record_of(0, 1, payload));
  const std::vector<float> before = values_of(*state, 0);
  EXPECT_TRUE(state->prepare(record_of(0, 2, {})));
  state->publish(record_of(0, 2, {}));
  EXPECT_EQ(values_of(*state, 0), before);
  EXPECT_EQ(*state->segment().current(0).updates, 1u);
  EXPECT_EQ(state->segment().current(0).ledger[1], 2u);
}

TEST(ServerStateTest, PaddingNeverChangesAndStateComesBackAsItWasSet) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(), 0, {});
  const auto bytes = gradient<float>(80, 3);
  ASSERT_EQ(state->state_bytes(0), bytes.size());
  state->set_slice(0, 12, bytes);
  std::uint64_t updates = 0;
  std::string out;
  state->get_slice(0, updates, out);
  EXPECT_EQ(updates, 12u);
  std::vector<float> values(80);
  std::memcpy(values.data(), out.data(), out.size());
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[25], 0) << "padding";
  EXPECT_EQ(values[40], 0) << "sgd has no slot here";
  EXPECT_EQ(values[40 + 33], 3) << "adagrad's sum";
  EXPECT_THAT(message_of<InvalidInput>([&] { state->set_slice(0, 1, std::span(bytes).first(10)); }),
              HasSubstr("10 bytes for slice 0, which takes 320"));
}

TEST(ServerStateTest, GoesOnWhereAnotherLeftIt) {
  const UniqueFd file = kept_memory_file();
  EXPECT_EQ(ServerState::open(file.get(), {}), nullptr);
  const auto payload = gradient<float>(40, 2);
  {
    auto state = ServerState::create(file.get(), sample(), 0, {});
    EXPECT_EQ(ServerState::open(file.get(), {}), nullptr) << "never initialised";
    state->mark_initialised();
    state->prepare(record_of(0, 1, payload));
    state->publish(record_of(0, 1, payload));
    state->prepare(record_of(0, 2, payload));  // and dies here
  }
  auto state = ServerState::open(file.get(), {});
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->spec(), sample());
  EXPECT_EQ(state->segment().version(0), 1u);
  EXPECT_EQ(values_of(*state, 0)[0], -1);
  state->prepare(record_of(0, 2, payload));
  state->publish(record_of(0, 2, payload));
  EXPECT_EQ(values_of(*state, 0)[0], -2);
  EXPECT_THROW(ServerState::open(file.get(), {.server = 0, .servers = 2}), InvalidInput);
}

TEST(ServerStateTest, RefusesRecordsThatDoNotFit) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(), 0, {});
  const auto payload = gradient<float>(40, 2);
  const auto refusal = [&](UpdateRecord record) {
    return message_of<InvalidInput>([&] { state->prepare(record); });
  };
  EXPECT_THAT(refusal(record_of(2, 1, payload)), HasSubstr("slice 2; this server has 2"));
  EXPECT_THAT(refusal(record_of(0, 2, payload)), HasSubstr("makes version 2"));
  EXPECT_THAT(refusal(record_of(1, 1, payload)), HasSubstr("160 bytes for a slice of 40"));
  UpdateRecord record = record_of(0, 1, payload);
  record.ledger = {{2, 1}};
  EXPECT_THAT(refusal(record), HasSubstr("worker 2 of 2"));
  record = record_of(0, 1, payload);
  record.learning_rates = {0.1};
  EXPECT_THAT(refusal(record), HasSubstr("1 learning rates for 2 groups"));
}

TEST(ServerStateTest, SaysWhatItNeedsWhereTheLimitIsLower) {
  ModelSpec spec = sample();
  spec.blocks = {{ElementType::f32, 10 << 20, {{"w", 0, 10 << 20, 1}}}};
  const UniqueFd file = kept_memory_file();
  const auto create = [&](int servers) {
    ServerState::create(file.get(), spec, 0,
                        {.server = 0, .servers = servers, .memory_limit = 100 << 20});
  };
  const std::string message = message_of<MemoryLimit>([&] { create(1); });
  EXPECT_THAT(message, HasSubstr("need 160."));
  EXPECT_THAT(message, HasSubstr("limit of 100.0 MiB"));
  EXPECT_THAT(message, HasSubstr("--ps"));
  EXPECT_NO_THROW(create(2));
}

TEST(ServerStateTest, AnImageMakesAnEqualState) {
  const UniqueFd first_file = kept_memory_file();
  auto state = ServerState::create(first_file.get(), sample(true), 3, {});
  state->mark_initialised();
  const auto payload = gradient<float>(40, 2);
  state->prepare(record_of(0, 4, payload));
  state->publish(record_of(0, 4, payload));
  const std::string rows = RowGradients{{5, 9}, std::vector<float>(8, 1)}.encode();
  UpdateRecord sparse = record_of(0, 4, std::as_bytes(std::span(rows)));
  sparse.kind = UpdateRecord::Kind::sparse;
  EXPECT_TRUE(state->prepare(sparse));
  state->publish(sparse);
  EXPECT_EQ(state->version(sparse), 4u);

  const std::vector<std::string> snapshot = snapshot_of(*state);
  const UniqueFd second_file = kept_memory_file();
  auto copy = from_pieces(second_file.get(), snapshot);
  EXPECT_EQ(snapshot_of(*copy), snapshot);
  EXPECT_EQ(copy->table(0).ledger(1), 4u);
  EXPECT_EQ(copy->segment().version(1), 3u);
  copy.reset();
  EXPECT_EQ(snapshot_of(*ServerState::open(second_file.get(), {})), snapshot);
}

TEST(ServerStateTest, ADamagedImageIsRefusedAndLeavesNothing) {
  const UniqueFd file = kept_memory_file();
  auto state = ServerState::create(file.get(), sample(true), 0, {});
  const std::vector<std::string> snapshot = snapshot_of(*state);
  const UniqueFd copy_file = kept_memory_file();
  for (std::size_t i = 0; i < snapshot.size(); ++i) {
    std::vector<std::string> pieces = snapshot;
    pieces[i].pop_back();
    EXPECT_THROW(from_pieces(copy_file.get(), pieces), InvalidInput) << "piece " << i << " cut";
    EXPECT_EQ(ServerState::open(copy_file.get(), {}), nullptr);
    pieces = snapshot;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THROW(from_pieces(copy_file.get(), pieces), InvalidInput) << "piece " << i << " lost";
    pieces = snapshot;
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i), snapshot[i]);
    EXPECT_THROW(from_pieces(copy_file.get(), pieces), InvalidInput) << "piece " << i << " twice";
  }
}

}  // namespace
}  // namespace cohort::ps
