// Who is there: MPI itself does not say which rank a collective waits for.
//
// At a deadline a rank asks all others how many calls they have begun. A rank that waits in a call
// answers; one that does not answer, or is at an earlier call, is the one that was missing.
#include <algorithm>
#include <cstring>

#include "cohort/base/text.h"
#include "cohort/collective/mpi/backend.h"

namespace cohort::collective::mpi {

namespace {

constexpr int kQueryTag = 3;
constexpr int kAnswerTag = 4;
constexpr int kGatherTag = 5;
// A rank that waits looks at its notices every 200 us.
constexpr auto kAnswerLimit = std::chrono::milliseconds(100);

struct Answer {
  std::uint64_t query = 0;
  std::uint64_t calls = 0;
};

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// The next message of that tag: its sender and its bytes.
std::optional<std::pair<int, std::string>> take(MPI_Comm comm, int tag) {
  int flag = 0, count = 0;
  MPI_Message message;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &flag, &message, &status);
  if (flag == 0) return std::nullopt;
  MPI_Get_count(&status, MPI_BYTE, &count);
  std::string bytes(static_cast<std::size_t>(count), '\0');
  MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  return std::pair(status.MPI_SOURCE, std::move(bytes));
}

template <typename T>
std::optional<T> decode(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

void MpiBackend::post_notice(int peer, int tag, std::string_view bytes) {
  Notice& notice = *notices_sent_.emplace_back(std::make_unique<Notice>());
  notice.bytes.assign(bytes.begin(), bytes.end());
  notice.requests.resize(1);
  MPI_Isend(notice.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer, tag, notices_,
            notice.requests.data());
}

void MpiBackend::answer_queries() {
  while (const auto query = take(notices_, kQueryTag))
    if (const auto number = decode<std::uint64_t>(query->second))
      post_notice(query->first, kAnswerTag, bytes_of(Answer{*number, calls_}));
  while (const auto answer = take(notices_, kAnswerTag))
    if (const auto value = decode<Answer>(answer->second); value && value->query == query_)
      answers_[answer->first] = value->calls;
  while (const auto arrival = take(notices_, kGatherTag))
    gathered_[arrival->second].insert(arrival->first);
}

std::vector<int> MpiBackend::find_late_peers() {
  std::uint64_t own_calls = 0;
  {
    std::lock_guard lock(mutex_);
    own_calls = calls_;
    answers_.clear();
    ++query_;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) post_notice(peer, kQueryTag, bytes_of(query_));
  }
  const auto late = [&] {
    std::lock_guard lock(mutex_);
    std::vector<int> missing;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && (!answers_.contains(peer) || answers_[peer] < own_calls))
        missing.push_back(peer);
    return missing;
  };
  const Deadline limit = Deadline::after(kAnswerLimit);
  while (!late().empty() && !limit.expired()) {
    read_notices();
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // MPI cannot wait with a deadline
  }
  return late();
}

Failure MpiBackend::lateness(const std::vector<int>& missing, const std::string& during) const {
  if (missing.empty())
    return {FailureKind::timed_out, -1,
            "all ranks take part, but MPI did not complete the call in time", during};
  std::vector<std::string> names;
  for (const int peer : missing) names.push_back(name(peer));
  return {FailureKind::timed_out, missing.front(),
          fmt::format("{} did not take part in time", join(names, ", ")), during};
}

void MpiBackend::gather_for(const std::string& id, std::span<const int> ranks, Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    for (const int peer : ranks)
      if (peer != rank_) post_notice(peer, kGatherTag, id);
  }
  const auto missing = [&] {
    std::lock_guard lock(mutex_);
    std::vector<int> result;
    for (const int peer : ranks)
      if (peer != rank_ && !gathered_[id].contains(peer)) result.push_back(peer);
    return result;
  };
  // One that came and gave up does not come again: MPI would wait for it for ever.
  const auto all_came = [&] {
    check(kNone, "subgroup");
    return missing().empty();
  };
  poll(all_came, deadline, kNone, "subgroup", missing);
  std::lock_guard lock(mutex_);
  gathered_.erase(id);
}

}  // namespace cohort::collective::mpi
