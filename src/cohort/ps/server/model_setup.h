#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// A model on its way from the chief to a server: Init, SetSlice for each slice, TablePieces,
// Commit. A chief that dies half-way leaves nothing: the next one begins again.
//
// Threads: confined to one. Failure: InvalidInput and ProtocolError, for the chief to be told.
class ModelSetup {
 public:
  // In `file`, a memory file that stays the caller's.
  ModelSetup(int file, ServerState::Options options, int workers, const Init& init);

  std::size_t slice_bytes(int slice) const;
  void set_slice(const SetSlice& header, std::span<const std::byte> bytes);
  // Of any servers' rows: those that this server has are taken.
  void add_table_piece(const TablePiece& header, std::string_view piece);
  // Everything has come; the state does not count as initialised yet.
  std::unique_ptr<ServerState> finish();

 private:
  int local(int slice) const;

  int server_;
  int servers_;
  std::unique_ptr<ServerState> state_;
  std::unordered_map<int, int> locals_;
  std::vector<bool> set_;
};

}  // namespace cohort::ps
