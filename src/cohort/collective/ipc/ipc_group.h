#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/collective/backend/call.h"
#include "cohort/collective/device/device_arithmetic.h"
#include "cohort/collective/device/failure_watch.h"
#include "cohort/collective/ipc/call_log.h"
#include "cohort/collective/ipc/endpoint.h"
#include "cohort/collective/ipc/rounds.h"

namespace cohort::collective::ipc {

// The DeviceGroup of ipc.h. Threads: as DeviceGroup; abort() from any.
class IpcGroup : public DeviceGroup {
 public:
  IpcGroup(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<DeviceArithmetic> arithmetic);
  ~IpcGroup() override;

  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  std::string name() const override { return "CUDA IPC"; }
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
  void check() override;
  void abort(const std::string& reason) noexcept override;

 private:
  using Address = CudaDriver::Address;
  // A reduction under way, as the two algorithms need it.
  struct Reducing {
    DataType dtype;
    ReduceOp op;
    DeviceStream stream;
    std::size_t element;  // bytes
  };

  // Checks the call and writes it down, then lets `body` put it on the stream between enter and
  // leave; what fails half way breaks the group. Of a capture nothing has reached the stream, and a
  // rank may drop it: such a call is not written down, and breaks nothing.
  void run(Call call, DeviceStream stream, const std::function<void()>& body);
  void copy(Address to, Address from, std::size_t bytes, DeviceStream stream) const;
  // The peers, this rank's next first, so that not all ranks read the same one at once.
  std::vector<int> peers() const;

  void reduce_small(Address in, Address out, std::size_t count, const Reducing& how);
  void reduce_slices(Address in, Address out, std::size_t count, const Reducing& how);
  // Reduces what `leaf` names for each rank, in the tree order of all ranks, into `into`.
  void reduce_tree(Address into, const std::function<Address(int rank)>& leaf, std::size_t count,
                   const Reducing& how);

  bool is_past_all_calls();
  void fail(const Failure& failure) noexcept;
  // What a peer says, or is the cause of. Thread-safe; the log of calls is not.
  std::optional<Failure> failure_of_peers() const;
  void check_failure();  // throws it, where there is one

  std::unique_ptr<Endpoint> endpoint_;
  std::shared_ptr<DeviceArithmetic> arithmetic_;
  CallLog log_;
  std::mutex mutex_;
  std::optional<Failure> failure_;
  std::optional<FailureWatch> watch_;  // last: it uses the others
};

}  // namespace cohort::collective::ipc
