#pragma once

#include "cohort/base/unique_fd.h"
#include "cohort/transport/tcp/channel.h"

namespace cohort::ps {

// A Unix stream socket as a Channel, over which a descriptor may travel with the first byte of a
// write. Confined to one thread. Never blocks.
class UnixChannel : public transport::tcp::Channel {
 public:
  explicit UnixChannel(UniqueFd socket);

  int fd() const override { return socket_.get(); }
  IoResult greet() override { return {}; }
  IoResult read(const iovec* places, int count) override;
  IoResult write(const iovec* places, int count) override;
  void finish() noexcept override;

  // `file`, the caller's, goes with the next write that makes progress.
  void attach(int file) { file_out_ = file; }
  // The descriptor that came with the last read. Its message is the one that the last byte of that
  // read belongs to: the system reads no further than the write that carried it.
  UniqueFd take_file() { return std::move(file_in_); }

 private:
  UniqueFd socket_;
  int file_out_ = -1;
  UniqueFd file_in_;
};

}  // namespace cohort::ps
