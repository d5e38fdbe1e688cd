#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "cohort/base/net/event_loop.h"
#include "cohort/ps/durable/update_log.h"

namespace cohort::ps {

struct DiskLogOptions {
  int server = 0;
  int servers = 1;
  std::uint64_t min_log_bytes = std::uint64_t{64} << 20;  // a snapshot never pays before
  std::chrono::milliseconds retry{1000};                  // after the disk refused
};

// A write-ahead log with group commit, and snapshots, in a folder that no other server uses
// (log_folder.h, docs/formats.md).
//
// One thread writes records: all that arrived while the last batch was synced are the next batch,
// one write and one sync. Another writes snapshots, from a copy in memory that save_snapshot() makes,
// so that records go on meanwhile. The two newest snapshots are kept, and the logs from the older
// one on: should the newer turn out to be damaged, nothing is lost.
//
// The order at a server's start: recover_from_disk() (log_recovery.h); open_disk_log();
// save_snapshot() when there was nothing to recover. No record becomes durable before the folder has a
// snapshot. save_snapshot() may be called while records are under way: they are in the log before and
// behind the snapshot. But not while an update of a table is prepared: its snapshot would contain half
// of it.
//
// Failure: InvalidInput when the folder cannot be written or is in use. A full or failing disk
// later delays: a warning names the folder and the bytes free, what was partly written is cut off,
// and the same batch is tried again until it works. The destructor tries once to write what is
// queued, and waits for that.
std::unique_ptr<UpdateLog> open_disk_log(EventLoop& loop, const std::filesystem::path& folder,
                                         DiskLogOptions options = {});

}  // namespace cohort::ps
