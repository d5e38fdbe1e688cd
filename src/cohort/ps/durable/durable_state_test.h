#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/ps/durable/update_log.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {

// For tests: the share of one of two servers in a small model with an embedding table, and the
// updates of a training that depends on nothing but their numbers. Targets are its slices and then
// the table.
class DurableState {
 public:
  static constexpr int kWorkers = 2;
  static constexpr int kServers = 2;
  static constexpr int kTargets = 3;
  using Versions = std::vector<std::uint64_t>;  // by target

  static ServerState::Options options() { return {.server = 0, .servers = kServers}; }

  static ModelSpec spec() {
    ModelSpec spec;
    for (const char* name : {"d", "c", "b", "a"})
      spec.blocks.push_back({.elements = 1024, .parts = {{.name = name, .elements = 1024}}});
    spec.tables = {{.name = "table", .dimension = 4}};
    spec.groups = {{.lr = 0.1, .momentum = 0.9}};
    spec.workers = kWorkers;
    spec.shards = kWorkers;
    return spec;
  }
  static UniqueFd memory() { return UniqueFd(::memfd_create("cohort-test", MFD_CLOEXEC)); }

  // As the chief has initialised it.
  static DurableState begin() {
    UniqueFd file = memory();
    auto state = ServerState::create(file.get(), spec(), 0, options());
    state->mark_initialised();
    return DurableState(std::move(file), std::move(state));
  }
  DurableState(UniqueFd file, std::unique_ptr<ServerState> state)
      : file_(std::move(file)), state_(std::move(state)), records_(kTargets), gradients_(kTargets) {
    EXPECT_EQ(state_->slices().size() + 1, std::size_t{kTargets});
  }

  // As it is after these updates without any failure.
  static std::string snapshot_of(const Versions& versions) {
    DurableState made = begin();
    for (int target = 0; target < kTargets; ++target) {
      while (made.versions()[static_cast<std::size_t>(target)] <
             versions[static_cast<std::size_t>(target)]) {
        made.prepare(target);
        made.publish(target);
      }
    }
    return made.snapshot();
  }
  // The targets in turn.
  static std::string snapshot_after(std::uint64_t updates) {
    Versions versions;
    for (std::uint64_t target = 0; target < kTargets; ++target)
      versions.push_back((updates + kTargets - 1 - target) / kTargets);
    return snapshot_of(versions);
  }

  ServerState& operator*() { return *state_; }

  Versions versions() const {
    Versions versions;
    for (int target = 0; target < kTargets; ++target)
      versions.push_back(state_->version(blank(target)));
    return versions;
  }
  std::uint64_t updates() const {
    std::uint64_t sum = 0;
    for (std::uint64_t version : versions()) sum += version;
    return sum;
  }
  int next_target() const { return static_cast<int>(updates() % kTargets); }

  // The target's next update, to be appended and then published.
  const UpdateRecord& prepare(int target) {
    UpdateRecord& record = records_[static_cast<std::size_t>(target)];
    record = blank(target);
    record.version = state_->version(record) + 1;
    record.learning_rates = {0.1 + 0.001 * static_cast<double>(record.version)};
    for (int worker = 0; worker < kWorkers; ++worker)
      record.ledger.emplace_back(worker, record.version);
    RowGradients rows;
    std::size_t count = 1024;
    if (record.kind == UpdateRecord::Kind::sparse) {
      for (std::uint64_t i = 0; i < 20; ++i) rows.keys.push_back(record.version * 5 + i);
      count = rows.keys.size() * 4;
    }
    for (std::size_t i = 0; i < count; ++i)
      rows.values.push_back(static_cast<float>((record.version * 31 + i * 7) % 101) / 50 - 1);
    std::string& bytes = gradients_[static_cast<std::size_t>(target)];
    if (record.kind == UpdateRecord::Kind::sparse)
      bytes = rows.encode();
    else
      bytes.assign(reinterpret_cast<const char*>(rows.values.data()), count * sizeof(float));
    record.payload = std::as_bytes(std::span(bytes));
    EXPECT_TRUE(state_->prepare(record));
    return record;
  }
  void publish(int target) { state_->publish(records_[static_cast<std::size_t>(target)]); }

  std::string snapshot() const {
    std::string all;
    write_snapshot(*state_, [&](std::string_view piece) { all += piece; });
    return all;
  }

 private:
  static UpdateRecord blank(int target) {
    bool dense = target < kTargets - 1;
    return {.kind = dense ? UpdateRecord::Kind::dense : UpdateRecord::Kind::sparse,
            .target = dense ? target : 0};
  }

  UniqueFd file_;
  std::unique_ptr<ServerState> state_;
  std::vector<UpdateRecord> records_;
  std::vector<std::string> gradients_;
};

// For tests: runs the loop until `done` holds; false when that takes too long.
template <typename Done>
bool run_until(EventLoop& loop, Done done,
               std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  Deadline deadline = Deadline::after(limit);
  while (!done() && !deadline.expired()) {
    Deadline soon = Deadline::after(std::chrono::milliseconds(50));
    loop.run_once(Deadline::at(std::min(deadline.when(), soon.when())));
  }
  return done();
}

// For tests: `count` updates, each published when it is durable.
inline void train(EventLoop& loop, DurableState& state, UpdateLog& log, int count) {
  for (int i = 0; i < count; ++i) {
    bool durable = false;
    const int target = state.next_target();
    log.append(state.prepare(target), [&] { durable = true; });
    ASSERT_TRUE(run_until(loop, [&] { return durable; })) << "update " << i;
    state.publish(target);
  }
}

inline void save(EventLoop& loop, DurableState& state, UpdateLog& log) {
  bool done = false;
  log.save_snapshot(*state, [&] { done = true; });
  ASSERT_TRUE(run_until(loop, [&] { return done; }));
}

}  // namespace cohort::ps
