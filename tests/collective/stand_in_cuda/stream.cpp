#include "stream.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace stand_in {

namespace {

constexpr std::size_t kMostLaunches = 1000;  // NVIDIA's driver takes about as many

std::atomic<int> blocked{0};

struct AllStreams {
  std::mutex mutex;
  std::vector<Stream*> streams;
};
AllStreams& all_streams() {
  static AllStreams& all = *new AllStreams;  // threads of streams may outlive main()
  return all;
}

}  // namespace

Stream* Stream::create(int device) {
  auto* stream = new Stream(device);
  std::thread([stream] { stream->run(); }).detach();
  AllStreams& all = all_streams();
  const std::lock_guard lock(all.mutex);
  all.streams.push_back(stream);
  return stream;
}

void Stream::destroy() {
  {
    AllStreams& all = all_streams();
    const std::lock_guard lock(all.mutex);
    std::erase(all.streams, this);
  }
  const std::lock_guard lock(mutex_);
  ends_ = true;
  changed_.notify_all();
}

void Stream::put_all(Launch launch) {
  std::unique_lock lock(mutex_);
  if (capture_) {
    std::ranges::move(launch, std::back_inserter(capture_->work));
    return;
  }
  if (launches_.size() >= kMostLaunches) {
    ++blocked;
    changed_.wait(lock, [&] { return launches_.size() < kMostLaunches; });
    --blocked;
  }
  launches_.push_back(std::move(launch));
  changed_.notify_all();
}

bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  return launches_.empty() && !busy_;
}

std::shared_ptr<Capture> Stream::capture() {
  const std::lock_guard lock(mutex_);
  return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !launches_.empty() || ends_; });
    if (launches_.empty()) break;
    const Launch launch = std::move(launches_.front());
    launches_.pop_front();
    if (launches_.size() + 1 == kMostLaunches) changed_.notify_all();
    busy_ = true;
    lock.unlock();
    for (const Work& work : launch) work();
    lock.lock();
    busy_ = false;
  }
  lock.unlock();
  delete this;
}

int blocked_calls() { return blocked; }

void await_idle(int device) {
  AllStreams& all = all_streams();
  while (true) {
    {
      const std::lock_guard lock(all.mutex);
      if (std::ranges::all_of(all.streams, [&](Stream* stream) {
            return stream->device() != device || stream->idle();
          }))
        return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void end_capture(const std::shared_ptr<Capture>& capture) {
  AllStreams& all = all_streams();
  const std::lock_guard lock(all.mutex);
  for (Stream* stream : all.streams)
    if (stream->capture() == capture) stream->set_capture(nullptr);
}

}  // namespace stand_in
