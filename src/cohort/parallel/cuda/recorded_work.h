#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace cohort::parallel {

// Work on a GPU that is recorded once, as a CUDA graph, and started as a whole from then on: the host
// makes one call in place of one for each kernel. What the work reads and writes stays where it was
// when it was recorded; memory that it took of LibTorch is its own until this object goes.
//
// While it is recorded nothing of it is computed, it must not wait for the device, and only the
// recording thread and autograd's may use the current stream, which is not the default one. Other
// threads may go on with the GPU. Random numbers are drawn at each replay from LibTorch's generator
// of the device as it then is.
//
// Threads: confined to one. The stream that is current in record() is current in replay().
// Failure: what `work` throws, and c10::Error for what cannot be recorded; the object is then only good
// to destroy, and LibTorch and the stream are as they were. In a build without CUDA the constructor
// throws InvalidInput.
class RecordedWork {
 public:
  explicit RecordedWork(torch::Device device);
  ~RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  void record(const std::function<void()>& work);
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::parallel
