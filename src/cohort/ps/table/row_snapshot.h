#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "cohort/ps/table/row_store.h"

namespace cohort::ps {

// All rows and candidates of a table, for snapshots and checkpoints, in pieces of about a MiB, in
// ascending order of the keys: equal tables give equal pieces. Version and ledgers are not in them,
// ages are relative to the version, so that a table of another training may read them. Takes 16
// bytes a row meanwhile. Nothing may be prepared.
void write_rows(const RowStore& store, const std::function<void(std::string_view piece)>& write);

// Takes over the rows of a piece that `mine` wants (none: all). Throws InvalidInput for a piece of
// a table with another dimension or rule, or that is not whole; the table is unchanged then.
void add_rows(RowStore& store, std::string_view piece,
              const std::function<bool(std::uint64_t key)>& mine);

}  // namespace cohort::ps
