#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/ps/state/server_state.h"

// What ServerState is made of, for its own units.
namespace cohort::ps {

// Neighbouring elements of a slice that have the same rule.
struct RuleRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::size_t group = 0;
};

// A server's share of a model, before there is memory for it.
struct ServerShare {
  ServerShare(const ModelSpec& spec, const ServerState::Options& options);

  std::vector<Slice> slices;  // by local number
  std::vector<int> numbers;   // in the placement
  std::vector<SliceShape> shapes;
  std::vector<std::vector<RuleRun>> runs;  // of each slice
};

struct ServerState::State {
  // Throws MemoryLimit when dense state is over the limit.
  State(Options where, ModelSpec model, std::string model_text);

  std::uint64_t room_of_a_table() const;
  // Makes, or finds, the tables in the segment's room.
  void make_tables(std::uint64_t first_step);
  void open_tables();

  Options options;
  ModelSpec spec;
  std::string text;
  ServerShare share;
  std::unique_ptr<Segment> segment;
  std::vector<std::unique_ptr<SparseTable>> tables;
  std::vector<std::uint64_t> table_bytes;  // of the room that each table has
  std::uint64_t dense_bytes = 0;

 private:
  SparseTable::Room room(std::size_t table);
  std::uint64_t table_limit() const;
};

}  // namespace cohort::ps
