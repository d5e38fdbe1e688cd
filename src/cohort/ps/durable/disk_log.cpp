#include "cohort/ps/durable/disk_log.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/durable/log_file.h"
#include "cohort/ps/durable/log_folder.h"
#include "cohort/ps/durable/snapshot_file.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {
namespace {

namespace fs = std::filesystem;
using Bytes = std::shared_ptr<std::string>;
using Callback = std::function<void()>;

constexpr std::size_t kMaxBatchBytes = std::size_t{64} << 20;

// What the writer does next: begins a log file with the records that are in no snapshot yet, or
// appends one record.
struct Item {
  std::optional<LogFileHeader> begin;
  std::vector<Bytes> records;
  Callback durable;
};

struct PendingSnapshot {
  LogFileHeader header;
  std::vector<std::string> pieces;
  Callback done;
};

class DiskLog final : public UpdateLog {
 public:
  DiskLog(EventLoop& loop, const fs::path& folder, const DiskLogOptions& options);
  ~DiskLog() override;

  void append(const UpdateRecord& record, Callback durable) override;
  void save_snapshot(const ServerState& state, Callback done) override;
  bool wants_snapshot() const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void enqueue(Item item);
  void write_records();
  std::vector<Item> next_batch(Lock& lock);
  bool write_batch(const std::vector<Item>& batch, std::unique_ptr<LogAppender>& file);
  void write_snapshots();
  // Calls `action` until it throws no SystemError; false when the log is closed first.
  bool persist(const char* what, const std::function<void()>& action);
  void report_trouble(const char* what, const SystemError& error) const;
  void post(std::vector<Callback> callbacks);

  EventLoop& loop_;
  const fs::path folder_;
  const DiskLogOptions options_;
  const LogFolderLock lock_;

  // Of the loop's thread.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::deque<Bytes> pending_;  // appended, not reported durable
  std::uint64_t next_number_ = 1;
  std::uint64_t log_bytes_ = 0;  // since the newest snapshot
  std::uint64_t snapshot_bytes_ = 0;
  int snapshots_under_way_ = 0;
  bool begun_ = false;  // the first log

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::deque<PendingSnapshot> snapshots_;
  bool has_snapshot_ = false;
  bool closing_ = false;

  std::thread writer_, snapshot_writer_;
};

DiskLog::DiskLog(EventLoop& loop, const fs::path& folder, const DiskLogOptions& options)
    : loop_(loop), folder_(folder), options_(options), lock_(folder) {
  LogFolderContents contents = list_log_folder(folder_);
  if (!contents.snapshots.empty()) {
    has_snapshot_ = begun_ = true;
    std::uint64_t newest = contents.snapshots.back();
    snapshot_bytes_ = fs::file_size(snapshot_path(folder_, newest));
    for (std::uint64_t number : contents.logs)
      if (number >= newest) log_bytes_ += fs::file_size(log_path(folder_, number));
    LogFileHeader header = SnapshotReader(snapshot_path(folder_, newest)).header();
    header.number = contents.logs.empty() ? newest : std::max(newest, contents.logs.back() + 1);
    next_number_ = header.number + 1;
    items_.push_back({.begin = header});
  }
  writer_ = std::thread([this] { write_records(); });
  snapshot_writer_ = std::thread([this] { write_snapshots(); });
}

DiskLog::~DiskLog() {
  *alive_ = false;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
  snapshot_writer_.join();
}

void DiskLog::enqueue(Item item) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void DiskLog::append(const UpdateRecord& record, Callback durable) {
  auto bytes = std::make_shared<std::string>(encode_record(record));
  log_bytes_ += bytes->size();
  pending_.push_back(bytes);
  enqueue({.records = {std::move(bytes)}, .durable = [this, durable = std::move(durable)] {
             pending_.pop_front();
             durable();
           }});
}

void DiskLog::save_snapshot(const ServerState& state, Callback done) {
  PendingSnapshot snapshot{.header = {.number = next_number_++,
                                      .server = static_cast<std::uint32_t>(options_.server),
                                      .servers = static_cast<std::uint32_t>(options_.servers),
                                      .spec = sha256(state.spec_text())}};
  std::uint64_t bytes = 0;
  write_snapshot(state, [&](std::string_view piece) {
    bytes += piece.size();
    snapshot.pieces.emplace_back(piece);
  });
  snapshot_bytes_ = bytes;
  log_bytes_ = 0;
  ++snapshots_under_way_;
  snapshot.done = [this, done = std::move(done)] {
    --snapshots_under_way_;
    done();
  };
  Item begin{.begin = snapshot.header};
  // Records under way do not count yet, so the snapshot does not have them. They are in the log before
  // it, which may be deleted first; where there is none, they have to wait for this one.
  if (begun_) begin.records.assign(pending_.begin(), pending_.end());
  for (const Bytes& record : pending_) log_bytes_ += record->size();
  {
    std::lock_guard lock(mutex_);
    if (begun_)
      items_.push_back(std::move(begin));
    else
      items_.push_front(std::move(begin));
    snapshots_.push_back(std::move(snapshot));
  }
  begun_ = true;
  changed_.notify_all();
}

bool DiskLog::wants_snapshot() const {
  return snapshots_under_way_ == 0 &&
         log_bytes_ > std::max(options_.min_log_bytes, 2 * snapshot_bytes_);
}

std::vector<Item> DiskLog::next_batch(Lock& lock) {
  changed_.wait(lock, [this] { return closing_ || (has_snapshot_ && !items_.empty()); });
  std::vector<Item> batch;
  if (!has_snapshot_) return batch;
  std::size_t bytes = 0;
  while (!items_.empty() && bytes < kMaxBatchBytes && (batch.empty() || !items_.front().begin)) {
    for (const Bytes& record : items_.front().records) bytes += record->size();
    batch.push_back(std::move(items_.front()));
    items_.pop_front();
  }
  return batch;
}

void DiskLog::write_records() {
  std::unique_ptr<LogAppender> file;
  while (true) {
    std::vector<Item> batch;
    {
      Lock lock(mutex_);
      batch = next_batch(lock);
    }
    if (batch.empty() || !write_batch(batch, file)) return;
    std::vector<Callback> callbacks;
    for (Item& item : batch)
      if (item.durable) callbacks.push_back(std::move(item.durable));
    post(std::move(callbacks));
  }
}

bool DiskLog::write_batch(const std::vector<Item>& batch, std::unique_ptr<LogAppender>& file) {
  if (const auto& header = batch.front().begin) {
    bool begun =
        persist("begin a log", [&] { file = std::make_unique<LogAppender>(folder_, *header); });
    if (!begun) return false;
  }
  std::vector<Bytes> records;
  for (const Item& item : batch)
    records.insert(records.end(), item.records.begin(), item.records.end());
  return records.empty() || persist("write the log", [&] { file->append(records); });
}

void DiskLog::write_snapshots() {
  auto closing = [this] {
    std::lock_guard lock(mutex_);
    return closing_;
  };
  while (true) {
    PendingSnapshot snapshot;
    {
      Lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !snapshots_.empty(); });
      if (closing_) return;
      snapshot = std::move(snapshots_.front());
      snapshots_.pop_front();
    }
    bool whole = false;
    bool written = persist("write a snapshot", [&] {
      whole = write_snapshot_file(folder_, snapshot.header, snapshot.pieces, closing);
    });
    if (!written || !whole) return;
    {
      std::lock_guard lock(mutex_);
      has_snapshot_ = true;
    }
    changed_.notify_all();
    persist("clean up", [&] { clean_log_folder(folder_); });
    post({std::move(snapshot.done)});
  }
}

bool DiskLog::persist(const char* what, const std::function<void()>& action) {
  for (bool in_trouble = false;;) {
    try {
      action();
      if (in_trouble) log::info("'{}' can be written again", folder_.string());
      return true;
    } catch (const SystemError& error) {
      if (!in_trouble) report_trouble(what, error);
      in_trouble = true;
    }
    Lock lock(mutex_);
    if (changed_.wait_for(lock, options_.retry, [this] { return closing_; })) return false;
  }
}

void DiskLog::report_trouble(const char* what, const SystemError& error) const {
  std::error_code ignored;
  auto space = fs::space(folder_, ignored);
  log::warning(
      "cannot {} in '{}' ({} bytes free): {}. Updates are not acknowledged meanwhile; trying again "
      "every {} ms",
      what, folder_.string(), ignored ? 0 : space.available, error.message(),
      options_.retry.count());
}

void DiskLog::post(std::vector<Callback> callbacks) {
  if (callbacks.empty()) return;
  loop_.post([alive = alive_, callbacks = std::move(callbacks)] {
    for (const Callback& callback : callbacks)
      if (*alive) callback();
  });
}

}  // namespace

std::unique_ptr<UpdateLog> open_disk_log(EventLoop& loop, const fs::path& folder,
                                         DiskLogOptions options) {
  return std::make_unique<DiskLog>(loop, folder, options);
}

}  // namespace cohort::ps
