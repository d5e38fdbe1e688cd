#include "cohort/collective/mpi/backend.h"

#include <climits>
#include <cstring>
#include <new>
#include <thread>

#include "cohort/base/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/collective/mpi/mpi.h"

namespace cohort::collective::mpi {

namespace {

constexpr int kNoticeTag = 1;
constexpr int kMessageTag = 2;
constexpr std::size_t kLargestMessage = INT_MAX;
constexpr auto kLongestPause = std::chrono::microseconds(200);

std::string encode(const Failure& failure) {
  std::string bytes;
  ByteWriter(bytes)
      .integer(static_cast<std::uint32_t>(failure.kind))
      .integer(static_cast<std::int32_t>(failure.culprit))
      .text(failure.text);
  return bytes;
}

Failure decode(std::string_view bytes) {
  ByteReader reader(bytes);
  Failure failure;
  failure.kind = static_cast<FailureKind>(reader.integer<std::uint32_t>());
  failure.culprit = reader.integer<std::int32_t>();
  failure.text = reader.text(4096);
  return failure;
}

}  // namespace

// One message. A receive looks at what came before it takes it, so that sizes are compared.
class MpiTransfer : public transport::Transfer {
 public:
  MpiTransfer(MpiBackend& backend, int peer, std::byte* memory, std::size_t bytes, bool is_send)
      : backend_(backend), peer_(peer), memory_(memory), bytes_(bytes), is_send_(is_send) {
    if (bytes > kLargestMessage)
      throw InvalidInput(fmt::format("a message of {} bytes; MPI takes {}", bytes, kLargestMessage),
                         {.advice = "Send it in parts."});
    if (is_send)
      MPI_Isend(memory, static_cast<int>(bytes), MPI_BYTE, peer, kMessageTag, backend.messages_,
                &request_);
  }
  ~MpiTransfer() override {
    if (request_ != MPI_REQUEST_NULL && is_send_) MPI_Request_free(&request_);
  }

  std::size_t done() const override { return done_ ? bytes_ : 0; }

  void wait(std::size_t, Deadline deadline) override {
    if (done_) return;
    backend_.poll(
        [&] { return step(); }, deadline,
        fmt::format("{} {} bytes with rank {}", is_send_ ? "send of" : "recv of", bytes_, peer_));
    done_ = true;
  }

 private:
  bool step() {
    int flag = 0;
    if (request_ == MPI_REQUEST_NULL) {
      MPI_Message message;
      MPI_Status status;
      MPI_Improbe(peer_, kMessageTag, backend_.messages_, &flag, &message, &status);
      if (flag == 0) return false;
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      if (static_cast<std::size_t>(count) != bytes_)
        backend_.fail({FailureKind::protocol,
                       peer_,
                       fmt::format("rank {} sent {} bytes where rank {} expects {}", peer_, count,
                                   backend_.rank(), bytes_),
                       {}});
      MPI_Imrecv(memory_, count, MPI_BYTE, &message, &request_);
    }
    MPI_Test(&request_, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  MpiBackend& backend_;
  int peer_;
  std::byte* memory_;
  std::size_t bytes_;
  bool is_send_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::atomic<bool> done_ = false;
};

MpiBackend::MpiBackend(MPI_Comm comm) : collective_(comm) {
  MPI_Comm_dup(comm, &messages_);
  MPI_Comm_dup(comm, &notices_);
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  left_.resize(static_cast<std::size_t>(size_));
}

// Communicators are not freed: that is a collective call, and a destructor must not wait. Nor are
// notices that MPI has not sent yet.
MpiBackend::~MpiBackend() {
  leave();
  int finalized = 0;
  MPI_Finalized(&finalized);
  for (auto& notice : told_) {
    int sent = finalized;
    if (finalized == 0)
      MPI_Testall(static_cast<int>(notice->requests.size()), notice->requests.data(), &sent,
                  MPI_STATUSES_IGNORE);
    if (sent == 0) (void)notice.release();
  }
}

template <typename Step>
void MpiBackend::poll(Step&& step, Deadline deadline, const std::string& during) {
  auto pause = std::chrono::microseconds(0);
  for (int i = 0;; ++i) {
    if (step()) return;
    check(during);
    if (deadline.expired())
      fail({FailureKind::timed_out, -1, "the other ranks did not take part in time", during});
    if (i < 200) {
      std::this_thread::yield();
    } else {
      pause = std::min(kLongestPause, pause + std::chrono::microseconds(5));
      std::this_thread::sleep_for(pause);  // MPI cannot wait with a deadline
    }
  }
}

void MpiBackend::complete(MPI_Request request, Deadline deadline, const std::string& during) {
  poll(
      [&] {
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
      },
      deadline, during);
}

void MpiBackend::check(const std::string& during) {
  hear();
  std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size_ && !failure_; ++peer)
    if (left_[peer]) failure_ = Failure{FailureKind::left, peer, *left_[peer], during};
  if (!failure_) return;
  Failure failure = *failure_;
  failure.during = during;
  failure.raise();
}

void MpiBackend::hear() {
  std::lock_guard lock(mutex_);
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
    const Failure failure = decode({bytes.data(), bytes.size()});
    if (failure.kind == FailureKind::left)
      left_[status.MPI_SOURCE] = failure.text;
    else if (!failure_)
      failure_ = failure;
  }
}

void MpiBackend::fail(Failure failure) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failure = *failure_;
  }
  tell(failure);
  failure.raise();
}

void MpiBackend::tell(const Failure& failure) noexcept {
  std::lock_guard lock(mutex_);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || std::exchange(said_goodbye_, true)) return;
  const std::string bytes = encode(failure);
  Notice& notice = *told_.emplace_back(std::make_unique<Notice>());
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
          fmt::format("rank {} aborted the group: {}", rank_, reason),
          {}});
  } catch (const Error&) {
    // That is what was asked for.
  }
}

void MpiBackend::leave() noexcept {
  tell({FailureKind::left, rank_, fmt::format("rank {} left the group", rank_), {}});
}

std::unique_ptr<transport::Transfer> MpiBackend::send(int peer, std::span<const std::byte> bytes) {
  check("send");
  return std::make_unique<MpiTransfer>(*this, peer, const_cast<std::byte*>(bytes.data()),
                                       bytes.size(), true);
}

std::unique_ptr<transport::Transfer> MpiBackend::receive(int peer, std::span<std::byte> bytes) {
  return std::make_unique<MpiTransfer>(*this, peer, bytes.data(), bytes.size(), false);
}

std::byte* MpiBackend::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
}
void MpiBackend::free(std::byte* memory) { ::operator delete (memory, std::align_val_t{4096}); }

std::unique_ptr<Backend> MpiBackend::subgroup(std::span<const int> ranks, const std::string& id,
                                              Deadline) {
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
