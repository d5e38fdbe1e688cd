#include "cohort/ps/server/model_setup.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/ps/model/model_spec_text.h"
#include "cohort/ps/model/placement.h"

namespace cohort::ps {

ModelSetup::ModelSetup(int file, ServerState::Options options, int workers, const Init& init)
    : server_(options.server), servers_(options.servers) {
  const ModelSpec spec = parse_model_spec(init.spec);
  if (spec.workers != workers)
    throw InvalidInput(fmt::format("the model is for {} workers, and its chief is one of {}",
                                   spec.workers, workers));
  state_ = ServerState::create(file, spec, init.first_step, options);
  const auto numbers = state_->slice_numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) locals_[numbers[i]] = static_cast<int>(i);
  set_.resize(numbers.size());
}

int ModelSetup::local(int slice) const {
  const auto found = locals_.find(slice);
  if (found == locals_.end())
    throw ProtocolError(fmt::format("slice {} is not of ps/{}", slice, server_));
  return found->second;
}

std::size_t ModelSetup::slice_bytes(int slice) const { return state_->state_bytes(local(slice)); }

void ModelSetup::set_slice(const SetSlice& header, std::span<const std::byte> bytes) {
  const int slice = local(header.slice);
  if (bytes.size() != state_->state_bytes(slice))
    throw ProtocolError(fmt::format("slice {} has {} bytes of state, but {} came", header.slice,
                                    state_->state_bytes(slice), bytes.size()));
  state_->set_slice(slice, header.updates, bytes);
  set_[static_cast<std::size_t>(slice)] = true;
}

void ModelSetup::add_table_piece(const TablePiece& header, std::string_view piece) {
  if (header.table < 0 || header.table >= state_->tables())
    throw ProtocolError(
        fmt::format("there is no table {}; the model has {}", header.table, state_->tables()));
  state_->table(header.table).apply_snapshot_piece(piece, [this](std::uint64_t key) {
    return server_of_key(key, servers_) == server_;
  });
}

std::unique_ptr<ServerState> ModelSetup::finish() {
  const auto missing = std::find(set_.begin(), set_.end(), false);
  if (missing != set_.end())
    throw ProtocolError(
        fmt::format("slice {} was never set",
                    state_->slice_numbers()[static_cast<std::size_t>(missing - set_.begin())]));
  return std::move(state_);
}

}  // namespace cohort::ps
