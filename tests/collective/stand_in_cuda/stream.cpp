#include "stream.h"

#include <algorithm>
#include <chrono>

namespace stand_in {

namespace {

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

void Stream::put(Work work) {
  const std::lock_guard lock(mutex_);
  if (capture_) {
    capture_->work.push_back(std::move(work));
    return;
  }
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void Stream::put_all(const std::vector<Work>& work) {
  for (const Work& one : work) put(one);
}

bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
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
    changed_.wait(lock, [&] { return !work_.empty() || ends_; });
    if (work_.empty()) break;
    const Work work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
  }
  lock.unlock();
  delete this;
}

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
