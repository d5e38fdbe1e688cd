#include "cohort/base/net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"

namespace cohort {

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wakeup_) throw SystemError("cannot create an event loop", errno);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wakeup_.get()}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) != 0)
    throw SystemError("cannot watch the event loop's own descriptor", errno);
}

void EventLoop::add(int fd, std::uint32_t events, FdCallback callback) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw SystemError(fmt::format("cannot watch descriptor {}", fd), errno);
  watches_[fd] = std::make_shared<Watch>(Watch{std::move(callback)});
}

void EventLoop::modify(int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)
    throw SystemError(fmt::format("cannot change the watch on descriptor {}", fd), errno);
}

void EventLoop::remove(int fd) {
  if (watches_.erase(fd) == 0) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::call_at(Clock::time_point when, Callback callback) {
  TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::cancel(TimerId id) {
  auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void EventLoop::post(Callback callback) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(callback));
  }
  ::eventfd_write(wakeup_.get(), 1);
}

void EventLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(wakeup_.get(), 1);
}

void EventLoop::run() {
  const log::NeverWait never_wait;
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(stopping_, false)) return;
    }
    run_once(Deadline::never());
  }
}

void EventLoop::run_once(Deadline deadline) {
  if (!timers_.empty()) {
    auto first = timers_.begin()->first.first;
    if (deadline.is_never() || first < deadline.when()) deadline = Deadline::at(first);
  }
  epoll_event events[64];
  int count = ::epoll_wait(epoll_.get(), events, 64, deadline.poll_timeout_ms());
  if (count < 0 && errno != EINTR) throw SystemError("cannot wait for events", errno);
  // Fetched events are resolved to their watches first: a callback may close a descriptor whose
  // number a new one then takes over within this very round.
  std::pair<std::weak_ptr<Watch>, std::uint32_t> ready[64];
  for (int i = 0; i < count; ++i) {
    auto found = watches_.find(events[i].data.fd);
    if (found == watches_.end()) continue;
    ready[i].first = found->second;
    ready[i].second = events[i].events;
  }
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == wakeup_.get()) {
      eventfd_t ignored;
      ::eventfd_read(wakeup_.get(), &ignored);
    } else if (auto watch = ready[i].first.lock()) {
      watch->callback(ready[i].second);
    }
  }
  run_posted();
  run_timers();
}

void EventLoop::run_posted() {
  std::vector<Callback> callbacks;
  {
    std::lock_guard lock(mutex_);
    callbacks.swap(posted_);
  }
  for (auto& callback : callbacks) callback();
}

void EventLoop::run_timers() {
  auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

}  // namespace cohort
