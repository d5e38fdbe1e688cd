#include "cohort/membership/service/coordinator_service.h"

#include <fmt/format.h>

#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/membership/protocol/steady_time.h"
#include "cohort/membership/service/mailbox.h"

namespace cohort::membership {
namespace {

constexpr std::chrono::seconds kConnectPatience{30};
// For one message to go out: the store takes them as fast as they come, or is gone.
constexpr std::chrono::seconds kSendPatience{5};

std::unique_ptr<cluster::StoreClient> connect(const CoordinatorServiceOptions& options) {
  return cluster::StoreClient::connect(
      {.address = options.store, .secret = options.secret, .name = "coordinator"},
      Deadline::after(kConnectPatience));
}

}  // namespace

// A thread that has something to tell the coordinator does so itself, and sends what follows
// from it; the service's thread reads the mail, minds the clock and tells the events.
class CoordinatorService::Loop {
 public:
  explicit Loop(CoordinatorServiceOptions options)
      : options_(std::move(options)),
        coordinator_(options_.coordinator),
        store_(connect(options_)),
        mailbox_(*store_, options_.prefix, Deadline::after(kConnectPatience)),
        thread_([this] { run(); }) {}

  ~Loop() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    store_->close();
    thread_.join();
  }

  template <typename Change>
  void change(Change change) {
    std::lock_guard lock(mutex_);
    change(coordinator_, steady_now());
    bool has_news = send_out();
    // The thread waits for mail: it has events to tell, or less time than it thinks.
    if (!lost_ && (has_news || coordinator_.next_tick().value_or(Time::max()) < waits_until_))
      try_sending([&] { mailbox_.wake(Deadline::after(kSendPatience)); });
  }

  Status status() const {
    std::lock_guard lock(mutex_);
    return {coordinator_.phase(), coordinator_.view(), coordinator_.members(),
            coordinator_.target()};
  }

 private:
  // With the lock; true when there are events to tell.
  bool send_out() {
    auto messages = coordinator_.take_messages();
    try_sending([&] {
      for (const auto& [member, message] : messages)
        mailbox_.send(member, message, Deadline::after(kSendPatience));
    });
    for (MembershipEvent& event : coordinator_.take_events()) events_.push_back(std::move(event));
    return !events_.empty();
  }

  template <typename Send>
  void try_sending(Send send) {
    if (lost_) return;
    try {
      send();
    } catch (const Error& error) {
      lose(error);
      store_->close();  // the thread notices
    }
  }

  void lose(const Error& error) {
    if (lost_) return;
    lost_ = true;
    if (closing_) return;
    events_.push_back(
        {.kind = MembershipEvent::Kind::failed,
         .at = steady_now(),
         .text = fmt::format("the coordinator has lost the job's store: {}", error.message())});
  }

  void tell_events() {
    for (;;) {
      std::deque<MembershipEvent> events;
      {
        std::lock_guard lock(mutex_);
        events.swap(events_);
      }
      if (events.empty()) return;
      if (!options_.on_event) continue;
      for (const MembershipEvent& event : events) options_.on_event(event);
    }
  }

  Deadline next_deadline() {
    std::lock_guard lock(mutex_);
    waits_until_ = coordinator_.next_tick().value_or(Time::max());
    return deadline_at(waits_until_);
  }

  void take_mail(const std::optional<CoordinatorMailbox::Mail>& mail) {
    std::lock_guard lock(mutex_);
    Time now = steady_now();
    if (mail && mail->message)
      coordinator_.handle(now, *mail->message);
    else if (mail)
      coordinator_.suspect(now, mail->member, "its connection ended");
    if (coordinator_.next_tick().value_or(Time::max()) <= now) coordinator_.tick(now);
    send_out();
  }

  void run() {
    const log::NeverWait never_wait;
    {
      std::lock_guard lock(mutex_);
      coordinator_.tick(steady_now());  // patience begins now, not with the first worker
    }
    bool goes_on = true;
    while (goes_on) {
      try {
        take_mail(mailbox_.next(next_deadline()));
      } catch (const ProtocolError& error) {
        log::warning("a worker sent the coordinator what is no message: {}", error.message());
      } catch (const Error& error) {
        std::lock_guard lock(mutex_);
        lose(error);
        goes_on = false;
      }
      tell_events();
    }
  }

  const CoordinatorServiceOptions options_;
  mutable std::mutex mutex_;  // guards what follows, but for the mailbox's next()
  Coordinator coordinator_;
  std::deque<MembershipEvent> events_;  // not told yet
  Time waits_until_{0};                 // the thread, at most
  bool lost_ = false;
  bool closing_ = false;
  std::unique_ptr<cluster::StoreClient> store_;
  CoordinatorMailbox mailbox_;
  std::thread thread_;
};

CoordinatorService::CoordinatorService(CoordinatorServiceOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}

CoordinatorService::~CoordinatorService() = default;

void CoordinatorService::lost(const std::string& task, int incarnation, const std::string& why) {
  loop_->change(
      [&](Coordinator& coordinator, Time now) { coordinator.lost(now, task, incarnation, why); });
}

void CoordinatorService::resize(int members, const std::string& why) {
  loop_->change([&](Coordinator& coordinator, Time now) { coordinator.resize(now, members, why); });
}

CoordinatorService::Status CoordinatorService::status() const { return loop_->status(); }

std::string mailbox_prefix(const std::string& job, int attempt) {
  return fmt::format("{}/{}/membership", job.empty() ? "job" : job, attempt);
}

}  // namespace cohort::membership
