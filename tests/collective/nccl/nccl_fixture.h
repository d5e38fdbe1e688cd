#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>

#include "../stand_in_nccl/controls.h"
#include "cohort/collective/group.h"
#include "cohort/collective/nccl/nccl.h"

namespace cohort::collective::nccl::testing {

// The stand-in's own functions.
struct StandIn {
  static const StandIn& get();  // loads it
  Controls* controls;
  SetVersionFunction* set_version;
  StreamFunction* make_stream;
  SynchronizeFunction* synchronize;
  FreeStreamFunction* free_stream;
  FailFunction* fail;
};

class Stream {
 public:
  Stream() : stream_(StandIn::get().make_stream()) {}
  ~Stream() { StandIn::get().free_stream(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator void*() const { return stream_; }
  bool synchronize() const { return StandIn::get().synchronize(stream_); }  // false: aborted

 private:
  void* stream_;
};

// Runs body(group) on `size` ranks at once, a thread each. An exception that leaves it is a failure.
void run_groups(int size, const std::function<void(Group& group)>& body);

// GPU number `number`, to form() with.
Participant on_gpu(int number);

// The communicator of rank group.rank(), on a GPU of its own.
std::unique_ptr<DeviceGroup> form_one(Group& group, std::chrono::milliseconds timeout);

// Starts with everything as in Controls, and ends with no communicator left.
class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  Controls& controls() const { return *StandIn::get().controls; }

  // run_groups() with a communicator for each; all ranks wait for each other before it is destroyed.
  void run(int size, const std::function<void(Group& group, DeviceGroup& nccl)>& body);
};

}  // namespace cohort::collective::nccl::testing
