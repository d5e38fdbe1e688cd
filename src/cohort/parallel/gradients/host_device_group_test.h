#pragma once

#include <vector>

#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"

namespace cohort::parallel {

// For tests: the host's memory and a Group in the place of GPUs and what connects them.
class HostDeviceGroup final : public collective::DeviceGroup {
 public:
  explicit HostDeviceGroup(collective::Group& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string name() const override { return "the host"; }
  bool can_be_captured() const override { return false; }

  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                    collective::DataType dtype, collective::DeviceStream) override {
    group_.all_gather_v(in, out, counts, dtype);
  }
  void all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                    std::span<const std::size_t> receive_counts, collective::DataType dtype,
                    collective::DeviceStream) override {
    group_.all_to_all_v(in, send_counts, out, receive_counts, dtype);
  }
  void broadcast(void* data, std::size_t count, collective::DataType dtype, int root,
                 collective::DeviceStream) override {
    group_.broadcast(data, count, dtype, root);
  }
  void all_reduce(const void* in, void* out, std::size_t count, collective::DataType dtype,
                  collective::ReduceOp op, collective::DeviceStream) override {
    ++reductions;
    group_.all_reduce(in, out, count, dtype, {.op = op});
  }
  void reduce_scatter(const void* in, void* out, std::size_t count, collective::DataType dtype,
                      collective::ReduceOp op, collective::DeviceStream) override {
    group_.reduce_scatter(in, out, count, dtype, {.op = op});
  }
  void check() override {}
  void abort(const std::string&) noexcept override {}

  int reductions = 0;  // calls in which it adds in an order of its own

 private:
  collective::Group& group_;
};

}  // namespace cohort::parallel
