// The collectives of the MPI backend.
//
// Agreement: one all-gather of descriptions. Moves are MPI's own collectives. all_reduce of B bytes
// over n ranks, in chunks: all-to-all of slices (rank r gets all ranks' slice r), one addition in
// tree order, all-gather of the results: each rank sends 2 B (n-1)/n bytes.
#include <climits>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>

#include "cohort/base/data/byte_io.h"
#include "cohort/collective/mpi/backend.h"
#include "cohort/collective/reduction/reduce_tree.h"

namespace cohort::collective::mpi {

namespace {

constexpr std::size_t kDescription = 512;
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

bool counts_differ(CallKind kind) {
  return kind == CallKind::all_gather_v || kind == CallKind::all_to_all_v;
}

// Equal for calls that match.
std::string describe_exactly(const Call& call) {
  Call shown = call;
  if (counts_differ(call.kind)) shown.count = 0;
  std::string text =
      fmt::format("{}, scales {:a} {:a}", describe(shown), call.pre_scale, call.post_scale);
  if (call.kind == CallKind::all_gather_v)
    for (const std::size_t count : call.receive_counts) text += fmt::format(" {}", count);
  return text.substr(0, kDescription - 1);
}

MPI_Datatype bytes_type(std::size_t size) {
  MPI_Datatype type;
  MPI_Type_contiguous(static_cast<int>(size), MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

// An MPI type of the size of the call's elements.
class Element {
 public:
  explicit Element(DataType type) : type_(bytes_type(size_of(type))) {}
  ~Element() { MPI_Type_free(&type_); }
  Element(const Element&) = delete;
  Element& operator=(const Element&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

// What MPI reads and writes in the background. A call that fails leaves MPI's operation behind,
// which cannot be cancelled; its memory then stays for good, at most once a group.
template <typename T>
class Kept {
 public:
  ~Kept() {
    if (std::uncaught_exceptions() > before_) (void)value_.release();
  }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_ = std::make_unique<T>();
  int before_ = std::uncaught_exceptions();
};

int as_count(std::size_t elements) {
  if (elements > INT_MAX)
    throw InvalidInput(fmt::format("{} elements; MPI takes {} in one call", elements, INT_MAX),
                       {.advice = "Make several calls."});
  return static_cast<int>(elements);
}

struct Layout {
  std::vector<int> counts, offsets;
  void set(std::span<const std::size_t> elements) {
    std::size_t offset = 0;
    for (const std::size_t count : elements) {
      counts.push_back(as_count(count));
      offsets.push_back(as_count(offset));
      offset += count;
    }
  }
};

}  // namespace

void MpiBackend::execute(const Call& call, Deadline deadline) {
  read_notices();
  {
    std::lock_guard lock(mutex_);
    ++calls_;
  }
  check(kAll, describe(call));
  agree(call, deadline);
  const auto* in = static_cast<const std::byte*>(call.in);
  auto* out = static_cast<std::byte*>(call.out);
  switch (call.kind) {
    case CallKind::barrier:
      return;
    case CallKind::all_reduce:
      return reduce(call, in, out, -1, deadline);
    case CallKind::reduce:
      return reduce(call, in, out, call.root, deadline);
    case CallKind::reduce_scatter: {
      // `out` may be this rank's run of `in`, which is reduced when it is its turn.
      const std::size_t run = call.count * size_of(call.dtype);
      for (int rank = 0; rank < size_; ++rank)
        reduce(call, in + run * static_cast<std::size_t>(rank), out, rank, deadline);
      return;
    }
    default:
      return move(call, deadline);
  }
}

void MpiBackend::agree(const Call& call, Deadline deadline) {
  const std::string during = describe(call);
  const auto n = static_cast<std::size_t>(size_);
  struct Descriptions {
    std::vector<char> own, all;
    std::vector<std::uint64_t> counts, all_counts;
  };
  const Kept<Descriptions> kept;
  kept->own.resize(kDescription);
  kept->all.resize(kDescription * n);
  const std::string text = describe_exactly(call);
  std::memcpy(kept->own.data(), text.data(), text.size());
  MPI_Request request;
  MPI_Iallgather(kept->own.data(), kDescription, MPI_BYTE, kept->all.data(), kDescription, MPI_BYTE,
                 collective_, &request);
  complete(request, deadline, during);
  const auto mismatch = [&](std::string what) {
    const Failure failure{FailureKind::mismatch, -1, std::move(what), during};
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
    }
    failure.raise();  // every rank sees it for itself
  };
  for (int peer = 0; peer < size_; ++peer) {
    const char* other = kept->all.data() + kDescription * static_cast<std::size_t>(peer);
    if (text != other)
      mismatch(fmt::format("the ranks' calls differ: {} called {}, {} called {}", name(rank_), text,
                           name(peer), other));
  }
  if (!counts_differ(call.kind)) return;

  std::vector<std::uint64_t>& mine = kept->counts;
  std::vector<std::uint64_t>& theirs = kept->all_counts;
  theirs.resize(2 * n * n);
  for (std::size_t i = 0; i < n; ++i)
    mine.push_back(call.kind == CallKind::all_gather_v ? call.count : call.send_counts[i]);
  mine.insert(mine.end(), call.receive_counts.begin(), call.receive_counts.end());
  MPI_Iallgather(mine.data(), static_cast<int>(2 * n), MPI_UINT64_T, theirs.data(),
                 static_cast<int>(2 * n), MPI_UINT64_T, collective_, &request);
  complete(request, deadline, during);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (theirs[2 * n * from + to] != theirs[2 * n * to + n + from])
        mismatch(
            fmt::format("the ranks' counts differ in {} #{}: {} sends {} x {} to {}, which expects "
                        "{}",
                        to_string(call.kind), call.sequence, name(static_cast<int>(from)),
                        theirs[2 * n * from + to], to_string(call.dtype),
                        name(static_cast<int>(to)), theirs[2 * n * to + n + from]));
}

void MpiBackend::move(const Call& call, Deadline deadline) {
  const Element element(call.dtype);
  const MPI_Datatype type = element.get();
  const std::size_t bytes = size_of(call.dtype);
  const bool is_root = call.root == rank_;
  const int count = counts_differ(call.kind) ? 0 : as_count(call.count);
  // MPI wants inputs and outputs apart; in-place calls give this rank's own run.
  struct Moving {
    std::vector<std::byte> copy;
    Layout sent, received;
  };
  const Kept<Moving> kept;
  const auto apart = [&](std::size_t elements) -> const void* {
    const auto* in = static_cast<const std::byte*>(call.in);
    if (in != nullptr) kept->copy.assign(in, in + elements * bytes);
    return kept->copy.data();
  };
  MPI_Request request;
  switch (call.kind) {
    case CallKind::broadcast: {
      if (is_root && call.in != call.out && call.out != nullptr && call.in != nullptr)
        std::memcpy(call.out, call.in, call.count * bytes);
      void* data = call.out != nullptr ? call.out : const_cast<void*>(call.in);
      MPI_Ibcast(data, count, type, call.root, collective_, &request);
      break;
    }
    case CallKind::all_gather:
      MPI_Iallgather(apart(call.count), count, type, call.out, count, type, collective_, &request);
      break;
    case CallKind::all_gather_v: {
      Layout& layout = kept->received;
      layout.set(call.receive_counts);
      MPI_Iallgatherv(apart(call.count), as_count(call.count), type, call.out, layout.counts.data(),
                      layout.offsets.data(), type, collective_, &request);
      return complete(request, deadline, describe(call));
    }
    case CallKind::gather:
      MPI_Igather(apart(call.count), count, type, call.out, count, type, call.root, collective_,
                  &request);
      break;
    case CallKind::scatter:
      MPI_Iscatter(is_root ? apart(call.count * static_cast<std::size_t>(size_)) : nullptr, count,
                   type, call.out, count, type, call.root, collective_, &request);
      break;
    case CallKind::all_to_all:
      MPI_Ialltoall(call.in, count, type, call.out, count, type, collective_, &request);
      break;
    case CallKind::all_to_all_v: {
      Layout& sent = kept->sent;
      Layout& received = kept->received;
      sent.set(call.send_counts);
      received.set(call.receive_counts);
      MPI_Ialltoallv(call.in, sent.counts.data(), sent.offsets.data(), type, call.out,
                     received.counts.data(), received.offsets.data(), type, collective_, &request);
      return complete(request, deadline, describe(call));
    }
    default:
      return;
  }
  complete(request, deadline, describe(call));
}

// `root` -1: every rank gets the result.
void MpiBackend::reduce(const Call& call, const std::byte* in, std::byte* out, int root,
                        Deadline deadline) {
  const auto n = static_cast<std::size_t>(size_);
  const std::size_t bytes = size_of(call.dtype);
  const std::string during = describe(call);
  const TreeReducer reducer({call.dtype, call.op, size_, call.pre_scale, call.post_scale});
  const std::size_t chunk = std::max<std::size_t>(n, kChunkBytes / bytes);
  struct Reducing {
    std::vector<std::byte> received, slice, result;
    std::vector<int> counts, offsets;          // of the slices, in bytes
    std::vector<int> own_counts, own_offsets;  // of every rank's part of this rank's slice
  };
  for (std::size_t from = 0; from < call.count; from += chunk) {
    const std::size_t count = std::min(chunk, call.count - from);
    const Kept<Reducing> kept;
    auto& [received, slice, result, counts, offsets, own_counts, own_offsets] = *kept.operator->();
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t begin = count * r / n, end = count * (r + 1) / n;
      counts.push_back(static_cast<int>((end - begin) * bytes));
      offsets.push_back(static_cast<int>(begin * bytes));
    }
    const auto own = static_cast<std::size_t>(counts[rank_]);
    received.resize(own * n);
    result.resize(count * bytes);
    own_counts.assign(n, counts[rank_]);
    for (std::size_t r = 0; r < n; ++r) own_offsets.push_back(static_cast<int>(own * r));
    MPI_Request request;
    MPI_Ialltoallv(in + from * bytes, counts.data(), offsets.data(), MPI_BYTE, received.data(),
                   own_counts.data(), own_offsets.data(), MPI_BYTE, collective_, &request);
    complete(request, deadline, during);

    std::vector<const std::byte*> inputs;
    for (std::size_t r = 0; r < n; ++r) inputs.push_back(received.data() + own * r);
    slice.resize(own);
    std::byte* target = slice.data();
    reducer.run(inputs, {&target, 1}, own / bytes);

    if (root < 0)
      MPI_Iallgatherv(slice.data(), counts[rank_], MPI_BYTE, result.data(), counts.data(),
                      offsets.data(), MPI_BYTE, collective_, &request);
    else
      MPI_Igatherv(slice.data(), counts[rank_], MPI_BYTE, result.data(), counts.data(),
                   offsets.data(), MPI_BYTE, root, collective_, &request);
    complete(request, deadline, during);
    if (root < 0 || root == rank_) std::memcpy(out + from * bytes, result.data(), result.size());
  }
}

}  // namespace cohort::collective::mpi
