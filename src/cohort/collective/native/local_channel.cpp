#include "cohort/collective/native/local_channel.h"

#include "cohort/base/error.h"

namespace cohort::collective {

using transport::SharedRef;

struct alignas(64) LocalChannel::Header {
  FailureRecord failure;
};

struct alignas(64) LocalChannel::MemberBlock {
  std::atomic<std::uint64_t> finished;  // windows
  alignas(64) std::atomic<std::uint32_t> ready;
  std::atomic<std::uint32_t> left;
  SharedRef staging;
  Slot slots[2];
};

namespace {

std::size_t counts_bytes(int members) {
  // For each member two calls of 2 * members numbers.
  const auto n = static_cast<std::size_t>(members);
  return (n * 2 * 2 * n * sizeof(std::uint64_t) + 63) / 64 * 64;
}

}  // namespace

std::size_t LocalChannel::shared_bytes(int members, std::size_t extra) {
  return sizeof(Header) + sizeof(MemberBlock) * static_cast<std::size_t>(members) +
         counts_bytes(members) + extra;
}

LocalChannel::LocalChannel(std::shared_ptr<transport::Domain> domain, std::vector<Peer> peers,
                           std::vector<std::string> tasks, Deadline deadline, const Check& check)
    : domain_(std::move(domain)), peers_(std::move(peers)), tasks_(std::move(tasks)) {
  transport::Arena& arena = domain_->arena();
  reaches_everything_ = arena.locate(this, sizeof *this).reachable();
  MemberBlock& own = block(index());
  if (!reaches_everything_ && size() > 1) {
    own_staging_ = arena.allocate(kStagingBuffers * kStagingBytes);
    own.staging = arena.locate(own_staging_, kStagingBuffers * kStagingBytes);
  }
  own.ready.store(1);
  domain_->notify_all();
  int missing = 0;
  const auto all_ready = [&] {
    while (missing < size() && block(missing).ready.load() != 0) ++missing;
    return missing == size();
  };
  try {
    wait_checking(check, deadline, [&](Deadline slice) {
      const auto news = [&] { return all_ready() || broken() || has_left(missing); };
      if (!domain_->wait(news, slice) && !deadline.expired())
        throw TimeoutError("not all are here");
    });
  } catch (...) {
    leave();
    throw;
  }
  wait(
      all_ready, [&] { return missing; }, deadline, "forming the group");
  staging_.resize(static_cast<std::size_t>(size()), nullptr);
  if (!reaches_everything_ && size() > 1)
    for (int i = 0; i < size(); ++i) staging_[i] = arena.resolve(block(i).staging);
}

LocalChannel::~LocalChannel() {
  if (own_staging_ != nullptr) domain_->retire(own_staging_);
}

LocalChannel::Header& LocalChannel::header() const {
  return *reinterpret_cast<Header*>(domain_->shared());
}

LocalChannel::MemberBlock& LocalChannel::block(int member) const {
  return reinterpret_cast<MemberBlock*>(domain_->shared() + sizeof(Header))[member];
}

std::byte* LocalChannel::extra() const { return domain_->shared() + shared_bytes(size(), 0); }

std::uint64_t LocalChannel::begin(const Call& call) {
  current_ = call;
  return ++calls_;
}

LocalChannel::Slot& LocalChannel::slot(int member, std::uint64_t sequence) const {
  return block(member).slots[sequence % 2];
}

std::uint64_t* LocalChannel::counts(int member, std::uint64_t sequence) const {
  auto* all = reinterpret_cast<std::uint64_t*>(
      domain_->shared() + sizeof(Header) + sizeof(MemberBlock) * static_cast<std::size_t>(size()));
  const auto n = static_cast<std::size_t>(size());
  return all + (static_cast<std::size_t>(member) * 2 + sequence % 2) * 2 * n;
}

void LocalChannel::publish(std::uint64_t sequence) {
  slot(index(), sequence).sequence.store(sequence);
  for (int i = 0; i < size(); ++i)
    if (i != index()) domain_->notify(i);
}

void LocalChannel::await_all_published(std::uint64_t sequence, Deadline deadline) {
  int missing = 0;
  wait(
      [&] {
        while (missing < size() && slot(missing, sequence).sequence.load() == sequence) ++missing;
        return missing == size();
      },
      [&] { return missing; }, deadline, {});
}

std::atomic<std::uint64_t>& LocalChannel::finished_by(int member) const {
  return block(member).finished;
}

void LocalChannel::finish(std::uint64_t windows) {
  finished_by(index()).store(windows);
  for (int i = 0; i < size(); ++i)
    if (i != index()) domain_->notify(i);
}

void LocalChannel::await_all_finished(std::uint64_t windows, Deadline deadline) {
  int missing = 0;
  wait(
      [&] {
        while (missing < size() && (missing == index() || finished_by(missing).load() >= windows))
          ++missing;
        return missing == size();
      },
      [&] { return missing; }, deadline, {});
}

std::byte* LocalChannel::staging(int member, std::uint64_t window) const {
  return staging_[member] + window % kStagingBuffers * kStagingBytes;
}

// A process that ends after it left the group has not died as far as the group is concerned.
int LocalChannel::dead_member() const {
  for (int i = 0; i < size() && domain_->any_deaths(); ++i)
    if (domain_->is_dead(i) && !has_left(i)) return i;
  return -1;
}

bool LocalChannel::broken() const { return header().failure.present() || dead_member() >= 0; }

std::optional<Failure> LocalChannel::failure() const {
  if (header().failure.present()) return header().failure.read();
  const int dead = dead_member();
  if (dead < 0) return std::nullopt;
  // Written down at once: this rank may end for that reason, and must not be taken for the cause.
  header().failure.write(
      {FailureKind::died, peers_[dead].rank, fmt::format("{} died", peers_[dead].name()), {}});
  domain_->notify_all();
  if (header().failure.present()) return header().failure.read();
  return Failure{
      FailureKind::died, peers_[dead].rank, fmt::format("{} died", peers_[dead].name()), {}};
}

Failure LocalChannel::fail(Failure failure) {
  if (header().failure.write(failure)) domain_->notify_all();
  return header().failure.present() ? header().failure.read() : failure;
}

void LocalChannel::break_off() {
  const Peer& self = peers_[index()];
  fail({FailureKind::aborted, self.rank, fmt::format("{} was interrupted", self.name()), {}});
}

void LocalChannel::leave() noexcept {
  block(index()).left.store(1);
  domain_->notify_all();
}

bool LocalChannel::has_left(int member) const {
  return member < size() && block(member).left.load() != 0;
}

void LocalChannel::give_up(int member, const std::string& what) {
  const std::string context = what.empty() ? describe(current_) : what;
  if (auto reason = failure()) {
    reason->during = context;
    raise(*reason);
  }
  const Peer& missing = peers_[member];
  if (has_left(member))
    raise(fail({FailureKind::left, missing.rank, fmt::format("{} left the group", missing.name()),
                context}));
  raise(fail({FailureKind::timed_out, missing.rank,
              fmt::format("{} did not take part in time", missing.name()), context}));
}

void LocalChannel::raise(const Failure& failure) const {
  const auto rank = static_cast<std::size_t>(failure.culprit);
  failure.raise(failure.culprit >= 0 && rank < tasks_.size() ? tasks_[rank] : "");
}

}  // namespace cohort::collective
