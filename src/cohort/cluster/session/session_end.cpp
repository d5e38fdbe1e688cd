// How the tasks of a session learn that it is over. Each task has one key, key("end/NAME"): absent
// while it takes part, "done" when it said so, "lost" when its connection ended before that.
#include <algorithm>
#include <set>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/text.h"
#include "cohort/cluster/session/session.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using TimePoint = Deadline::Clock::time_point;

constexpr const char* kDone = "done";
constexpr const char* kLost = "lost";
constexpr std::chrono::hours kLongestPatience{24 * 365};  // the clock can still add it up

// What a serving task knows of those that have not said that they are done.
class OpenTasks {
 public:
  OpenTasks(std::map<std::string, TaskId> by_key, milliseconds patience,
            const TaskEventHandler& on_event)
      : patience_(std::min<milliseconds>(patience, kLongestPatience)), on_event_(on_event) {
    for (auto& [key, task] : by_key) tasks_[key].id = task;
  }

  // True when every one that is left is gone for good.
  bool all_gone() const {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& entry) { return entry.second.gone; });
  }
  std::size_t count() const { return tasks_.size(); }
  std::vector<TaskId> ids() const {
    std::vector<TaskId> result;
    for (const auto& [key, task] : tasks_) result.push_back(task.id);
    return result;
  }

  void take(const StoreEvent& event, TimePoint now) {
    auto found = tasks_.find(event.key);
    if (found == tasks_.end()) return;
    Task& task = found->second;
    if (event.kind == StoreEvent::Kind::removed) {
      if (!task.lost_since) return;
      task.lost_since.reset();
      task.gone = false;
      tell(task.id, TaskEvent::returned);
    } else if (event.value == kDone) {
      const TaskId id = task.id;
      tasks_.erase(found);
      tell(id, TaskEvent::done);
    } else if (!task.lost_since) {
      task.lost_since = now;
      tell(task.id, TaskEvent::lost);
    }
  }

  // Whose time is up, is gone. Returns when the next one's will be.
  TimePoint give_up(TimePoint now) {
    TimePoint next = TimePoint::max();
    for (auto& [key, task] : tasks_) {
      if (!task.lost_since || task.gone) continue;
      if (now - *task.lost_since < patience_) {
        next = std::min(next, *task.lost_since + patience_);
        continue;
      }
      task.gone = true;
      tell(task.id, TaskEvent::gone);
    }
    return next;
  }

 private:
  struct Task {
    TaskId id;
    std::optional<TimePoint> lost_since;
    bool gone = false;
  };
  void tell(const TaskId& task, TaskEvent event) const {
    if (on_event_) on_event_(task, event);
  }

  std::map<std::string, Task> tasks_;  // by end key
  milliseconds patience_;
  const TaskEventHandler& on_event_;
};

}  // namespace

// Takes the end key over from an earlier process of this task, in this order: the store may see
// that one's connection end only now, and would otherwise report the loss of a task that is there.
void Session::announce(Deadline deadline) {
  client_->set_on_disconnect(end_key(name_), kLost, deadline);
  client_->remove(end_key(name_), deadline);
}

void Session::done(Deadline deadline) {
  if (is_alone() || std::exchange(is_done_, true)) return;
  // In this order there is no instant at which our end would go unreported.
  client_->set_on_disconnect(end_key(name_), kDone, deadline);
  client_->set(end_key(name_), kDone, deadline);
  say_last_word({.kind = LastWord::Kind::done});
}

std::map<std::string, TaskId> Session::awaited_ends() const {
  std::map<std::string, TaskId> result;
  for (const auto& task : awaited_) result.emplace(end_key(name_of(task)), task);
  return result;
}

void Session::require_service() const {
  if (std::find(awaited_.begin(), awaited_.end(), role_.task) != awaited_.end())
    throw InvalidInput(fmt::format("{} trains, so it cannot wait for the training to end", name_),
                       {.advice = "Call done() instead."});
}

void Session::serve_until_done(Deadline deadline) {
  const auto no_loss = [this](const TaskId& task, TaskEvent event) {
    if (event == TaskEvent::lost)
      throw PeerError(fmt::format("{} left the job without saying that it is done", name_of(task)),
                      {.task = name_,
                       .during = "serve_until_done",
                       .advice = "Look at the log of that task.",
                       .peer = to_string(task)});
  };
  serve_through_losses(milliseconds::max(), no_loss, deadline);
}

std::vector<TaskId> Session::serve_through_losses(milliseconds patience,
                                                  const TaskEventHandler& on_event,
                                                  Deadline deadline) {
  if (is_alone()) return {};
  require_service();
  OpenTasks open(awaited_ends(), patience, on_event);
  StoreWatch watch = client_->watch(key("end/"), deadline);
  while (true) {
    const TimePoint next = open.give_up(Deadline::Clock::now());
    if (open.all_gone()) break;
    if (auto event = watch.next(Deadline::at(std::min(next, deadline.when()))))
      open.take(*event, Deadline::Clock::now());
    else if (deadline.expired())
      throw TimeoutError(fmt::format("{} of {} training tasks are not done in time", open.count(),
                                     awaited_.size()),
                         {.task = name_, .during = "serve_until_done"});
  }
  leave_quietly(deadline);
  return open.ids();
}

// The host of the store may be gone by now, and no task is left that needs to hear of our end.
void Session::leave_quietly(Deadline deadline) {
  try {
    done(deadline);
  } catch (const PeerError& error) {
    log::debug("{} leaves after the store: {}", name_, error.what());
  }
}

void Session::wait_for_others(Deadline deadline) {
  auto missing = awaited_ends();
  StoreWatch watch = client_->watch(key("end/"), deadline);
  while (!missing.empty()) {
    auto event = watch.next(deadline);
    if (!event) break;
    if (event->kind == StoreEvent::Kind::set) missing.erase(event->key);
  }
  std::vector<std::string> names;
  for (const auto& [key, task] : missing) names.push_back(name_of(task));
  if (!names.empty())
    log::warning("the job's store closes though these tasks are not done: {}",
                 cohort::join(names, ", "));
  else if (!server_->wait_for_clients_at_most(1, deadline))
    log::warning("the job's store closes though {} other tasks are still connected",
                 server_->client_count() - 1);
}

void Session::close(Deadline deadline) {
  if (is_alone()) return;
  if (server_ && is_done_) {
    try {
      wait_for_others(deadline);
    } catch (const Error& error) {
      log::warning("the job's store closes early: {}", error.what());
    }
  }
  note_.reset();
  client_->close();
  if (server_) server_->close();
}

}  // namespace cohort::cluster
