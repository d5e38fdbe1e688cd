#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "cohort/collective/backend/call.h"
#include "cohort/collective/nccl/communicator.h"

namespace cohort::collective::nccl {

// The calls of a DeviceGroup as NCCL's (docs/algorithms.md). Contract: nccl.h.
class NcclGroup : public DeviceGroup {
 public:
  // `communicator` is connected. `timeout`: of each call.
  NcclGroup(const NcclLibrary& library, std::unique_ptr<Communicator> communicator, int rank,
            int size, std::chrono::milliseconds timeout);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override;
  bool can_be_captured() const override { return true; }

  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType dtype,
                    DeviceStream stream) override;
  void all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                    std::span<const std::size_t> receive_counts, DataType dtype,
                    DeviceStream stream) override;
  void broadcast(void* data, std::size_t count, DataType dtype, int root,
                 DeviceStream stream) override;
  void all_reduce(const void* in, void* out, std::size_t count, DataType dtype, ReduceOp op,
                  DeviceStream stream) override;
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype, ReduceOp op,
                      DeviceStream stream) override;

  void check() override { communicator_->check(); }
  void abort(const std::string& reason) noexcept override { communicator_->abort(reason); }

 private:
  // What this rank sends to and receives from each rank, in one group of NCCL's calls.
  struct Exchange;
  Call begin(Call call);  // numbers and checks it
  void run(const Call& call, const std::function<Result(Comm)>& start);
  Result exchange(const Exchange& exchange, Comm comm) const;

  const NcclLibrary& library_;
  std::unique_ptr<Communicator> communicator_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::uint64_t sequence_ = 0;
};

}  // namespace cohort::collective::nccl
