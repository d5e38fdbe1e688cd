// A list of collective calls on GPUs that all ranks make, with the results that they must have.
#pragma once

#include <string>
#include <vector>

#include "../reference.h"
#include "cohort/collective/backend/call.h"
#include "cohort/collective/device/device_group.h"
#include "gpu.h"

namespace cohort::collective::testing {

struct Step {
  CallKind kind = CallKind::broadcast;  // a DeviceGroup's
  DataType dtype = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;  // from which each rank's counts are derived
  int root = 0;
  bool in_place = false;
  int stream = 0;
};

// Every operation with every type, in place and not, for one size.
std::vector<Step> every_call(int size, std::size_t count);
// `length` calls at random, the same for a seed, with up to `most` elements.
std::vector<Step> random_calls(int size, unsigned seed, int length, std::size_t most, int streams);

// Puts the calls on the streams all at once, then compares. Memory of the GPU for all of them.
class Script {
 public:
  Script(Gpu& gpu, int rank, int size, std::vector<Step> steps, unsigned seed);

  // Other contributions than before; waits.
  void upload(unsigned seed);
  void put(DeviceGroup& group, const std::vector<DeviceStream>& streams) const;
  // What is wrong; empty: nothing. The streams must be past the calls.
  std::string compare();

 private:
  struct Place {
    std::size_t in = 0;  // bytes from the beginning of the memory
    std::size_t out = 0;
    std::size_t end = 0;  // of `out`; guarded behind it
  };
  std::vector<std::size_t> counts(const Step& step, int from_rank, bool receives) const;
  std::size_t in_count(const Step& step, int rank) const;
  std::size_t out_count(const Step& step, int rank) const;
  Bytes contribution_of(std::size_t index, int rank) const;
  Bytes expected(std::size_t index) const;
  Bytes reduced(const Step& step, const std::vector<Bytes>& inputs) const;
  // Where in `out` the input lies in a call in place, in bytes.
  std::size_t place_in_out(const Step& step) const;

  Gpu& gpu_;
  int rank_;
  int size_;
  unsigned seed_;
  std::vector<Step> steps_;
  std::vector<Place> places_;
  std::size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
  DeviceStream stream_;
};

std::string describe(const Step& step);

}  // namespace cohort::collective::testing
