#include "cohort/collective/mpi/backend.h"

#include <array>
#include <climits>
#include <cstring>
#include <new>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/collective/mpi/mpi.h"

namespace cohort::collective::mpi {

namespace {

constexpr int kNoticeTag = 1;
constexpr int kMessageTag = 2;
constexpr std::size_t kLargestMessage = INT_MAX;

std::string encode(const Failure& failure, std::uint64_t calls) {
  std::string bytes;
  ByteWriter(bytes)
      .integer(calls)
      .integer(static_cast<std::uint32_t>(failure.kind))
      .integer(static_cast<std::int32_t>(failure.culprit))
      .text(failure.text);
  return bytes;
}

Failure decode(std::string_view bytes, std::uint64_t& calls) {
  ByteReader reader(bytes);
  Failure failure;
  calls = reader.integer<std::uint64_t>();
  failure.kind = static_cast<FailureKind>(reader.integer<std::uint32_t>());
  failure.culprit = reader.integer<std::int32_t>();
  failure.text = reader.text(4096);
  return failure;
}

}  // namespace

// One message. Receives of one peer are matched in the order in which they were posted, and look at
// what came before they take it, so that sizes are compared.
struct MpiBackend::Posted {
  int peer = 0;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  std::atomic<bool> done = false;
};

class MpiTransfer : public transport::Transfer {
 public:
  MpiTransfer(MpiBackend& backend, std::shared_ptr<MpiBackend::Posted> posted, bool is_send)
      : backend_(backend), posted_(std::move(posted)), is_send_(is_send) {}
  ~MpiTransfer() override {
    if (!posted_->done) backend_.abort("a transfer was given up");
  }

  std::size_t done() const override { return posted_->done ? posted_->bytes : 0; }

  void wait(std::size_t, Deadline deadline) override {
    backend_.poll(
        [&] {
          backend_.match_receives();
          return backend_.test(*posted_);
        },
        deadline, posted_->peer,
        fmt::format("{} of {} bytes with rank {}", is_send_ ? "send" : "recv", posted_->bytes,
                    posted_->peer));
  }

 private:
  MpiBackend& backend_;
  std::shared_ptr<MpiBackend::Posted> posted_;
  bool is_send_;
};

bool MpiBackend::test(Posted& posted) {
  std::lock_guard lock(posted_mutex_);
  if (posted.done || posted.request == MPI_REQUEST_NULL) return posted.done;
  int flag = 0;
  MPI_Test(&posted.request, &flag, MPI_STATUS_IGNORE);
  if (flag != 0) posted.done = true;
  return posted.done;
}

// Of all peers: a send may wait for what the peer sends first.
void MpiBackend::match_receives() {
  for (int peer = 0; peer < size_; ++peer) match_receives_of(peer);
}

void MpiBackend::match_receives_of(int peer) {
  std::string mismatch;
  {
    std::lock_guard lock(posted_mutex_);
    auto& queue = receives_[static_cast<std::size_t>(peer)];
    while (!queue.empty()) {
      int flag = 0, count = 0;
      MPI_Message message;
      MPI_Status status;
      MPI_Improbe(peer, kMessageTag, messages_, &flag, &message, &status);
      if (flag == 0) return;
      MPI_Get_count(&status, MPI_BYTE, &count);
      Posted& first = *queue.front();
      if (static_cast<std::size_t>(count) != first.bytes) {
        mismatch = fmt::format("{} sent {} bytes where {} expects {}", name(peer), count,
                               name(rank_), first.bytes);
        break;
      }
      MPI_Imrecv(first.memory, count, MPI_BYTE, &message, &first.request);
      queue.pop_front();
    }
  }
  if (!mismatch.empty()) fail({FailureKind::protocol, peer, std::move(mismatch), {}});
}

MpiBackend::MpiBackend(MPI_Comm comm) : collective_(comm) {
  MPI_Comm_dup(comm, &messages_);
  MPI_Comm_dup(comm, &notices_);
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  left_.resize(static_cast<std::size_t>(size_));
  receives_.resize(static_cast<std::size_t>(size_));
  std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
  int length = 0;
  MPI_Get_processor_name(own.data(), &length);
  std::vector<char> all(own.size() * static_cast<std::size_t>(size_));
  MPI_Allgather(own.data(), own.size(), MPI_CHAR, all.data(), own.size(), MPI_CHAR, comm);
  for (int peer = 0; peer < size_; ++peer)
    hosts_.emplace_back(all.data() + own.size() * static_cast<std::size_t>(peer));
}

std::string MpiBackend::name(int peer) const {
  return fmt::format("rank {} on {}", peer, hosts_[static_cast<std::size_t>(peer)]);
}

// Communicators are not freed: that is a collective call, and a destructor must not wait. Nor are
// notices that MPI has not sent yet.
MpiBackend::~MpiBackend() {
  leave();
  int finalized = 0;
  MPI_Finalized(&finalized);
  for (auto& notice : notices_sent_) {
    int sent = finalized;
    if (finalized == 0)
      MPI_Testall(static_cast<int>(notice->requests.size()), notice->requests.data(), &sent,
                  MPI_STATUSES_IGNORE);
    if (sent == 0) (void)notice.release();
  }
}

void MpiBackend::complete(MPI_Request request, Deadline deadline, const std::string& during) {
  poll(
      [&] {
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
      },
      deadline, kAll, during);
}

void MpiBackend::check(int with, const std::string& during) {
  std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size_ && !failure_; ++peer)
    if (left_[peer] && (with == kAll ? left_[peer]->calls < calls_ : with == peer))
      failure_ = Failure{FailureKind::left, peer, left_[peer]->text, during};
  if (!failure_) return;
  Failure failure = *failure_;
  failure.during = during;
  failure.raise();
}

void MpiBackend::read_notices() {
  std::lock_guard lock(mutex_);
  answer_queries();
  while (true) {
    int flag = 0;
    MPI_Message message;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, kNoticeTag, notices_, &flag, &message, &status);
    if (flag == 0) return;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    std::vector<char> bytes(static_cast<std::size_t>(count));
    MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    std::uint64_t calls = 0;
    const Failure failure = decode({bytes.data(), bytes.size()}, calls);
    if (failure.kind == FailureKind::left)
      left_[status.MPI_SOURCE] = Departure{failure.text, calls};
    else if (!failure_)
      failure_ = failure;
  }
}

// Not what has arrived and was not read: MPI may be finalized by now.
std::optional<Failure> MpiBackend::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void MpiBackend::fail(Failure failure) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failure = *failure_;
  }
  send_notice(failure);
  failure.raise();
}

void MpiBackend::send_notice(const Failure& failure) noexcept {
  std::lock_guard lock(mutex_);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || std::exchange(departure_sent_, true)) return;
  const std::string bytes = encode(failure, calls_);
  Notice& notice = *notices_sent_.emplace_back(std::make_unique<Notice>());
  notice.bytes.assign(bytes.begin(), bytes.end());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    MPI_Request request;
    MPI_Isend(notice.bytes.data(), static_cast<int>(notice.bytes.size()), MPI_BYTE, peer,
              kNoticeTag, notices_, &request);
    notice.requests.push_back(request);
  }
}

void MpiBackend::abort(const std::string& reason) noexcept {
  try {
    fail({FailureKind::aborted,
          rank_,
          fmt::format("{} aborted the group: {}", name(rank_), reason),
          {}});
  } catch (const Error&) {
    // That is what was asked for.
  }
}

void MpiBackend::leave() noexcept {
  send_notice({FailureKind::left, rank_, fmt::format("{} left the group", name(rank_)), {}});
}

std::unique_ptr<transport::Transfer> MpiBackend::send(int peer, std::span<const std::byte> bytes) {
  return post(peer, const_cast<std::byte*>(bytes.data()), bytes.size(), true);
}

std::unique_ptr<transport::Transfer> MpiBackend::receive(int peer, std::span<std::byte> bytes) {
  return post(peer, bytes.data(), bytes.size(), false);
}

std::unique_ptr<transport::Transfer> MpiBackend::post(int peer, std::byte* memory,
                                                      std::size_t bytes, bool is_send) {
  read_notices();
  check(kNone, is_send ? "send" : "recv");
  if (bytes > kLargestMessage)
    throw InvalidInput(fmt::format("a message of {} bytes; MPI takes {}", bytes, kLargestMessage),
                       {.advice = "Send it in parts."});
  auto posted = std::make_shared<Posted>();
  posted->peer = peer;
  posted->memory = memory;
  posted->bytes = bytes;
  std::lock_guard lock(posted_mutex_);
  if (is_send)
    MPI_Isend(memory, static_cast<int>(bytes), MPI_BYTE, peer, kMessageTag, messages_,
              &posted->request);
  else
    receives_[static_cast<std::size_t>(peer)].push_back(posted);
  return std::make_unique<MpiTransfer>(*this, std::move(posted), is_send);
}

std::byte* MpiBackend::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
}
void MpiBackend::free(std::byte* memory) { ::operator delete (memory, std::align_val_t{4096}); }

// MPI cannot make a communicator with a deadline, so all members meet before they ask for it.
std::unique_ptr<Backend> MpiBackend::subgroup(std::span<const int> ranks, const std::string& id,
                                              Deadline deadline) {
  gather_for(id, ranks, deadline);
  MPI_Group all, members;
  MPI_Comm_group(collective_, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
  MPI_Comm comm;
  const int tag = static_cast<int>(std::hash<std::string>{}(id) % 30'000);
  const int code = MPI_Comm_create_group(collective_, members, tag, &comm);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  if (code != MPI_SUCCESS) throw Error("MPI made no communicator for a sub-group");
  return std::make_unique<MpiBackend>(comm);
}

}  // namespace cohort::collective::mpi
