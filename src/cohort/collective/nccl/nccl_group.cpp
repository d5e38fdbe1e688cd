#include "cohort/collective/nccl/nccl_group.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "cohort/collective/arguments.h"

namespace cohort::collective::nccl {

namespace {

Type type_of(DataType type) {
  switch (type) {
    case DataType::f32:
      return Type::f32;
    case DataType::f64:
      return Type::f64;
    case DataType::f16:
      return Type::f16;
    case DataType::bf16:
      return Type::bf16;
    case DataType::i8:
      return Type::i8;
    case DataType::i32:
      return Type::i32;
    case DataType::i64:
      return Type::i64;
    case DataType::u8:
    case DataType::boolean:
      break;
  }
  return Type::u8;
}

// As a Group defines it: on booleans sum and maximum are "or", product and minimum "and".
Op op_of(const Call& call) {
  const bool boolean = call.dtype == DataType::boolean;
  switch (call.op) {
    case ReduceOp::sum:
      return boolean ? Op::maximum : Op::sum;
    case ReduceOp::product:
      return boolean ? Op::minimum : Op::product;
    case ReduceOp::minimum:
      return Op::minimum;
    case ReduceOp::maximum:
      return Op::maximum;
    case ReduceOp::average:
      break;
  }
  // NCCL adds in the type itself; a Group adds i8 and u8 in 32 bits before it divides.
  if (call.dtype == DataType::i8 || call.dtype == DataType::u8)
    throw InvalidInput(
        fmt::format("NCCL has no average of {} that cannot overflow", to_string(call.dtype)),
        {.during = describe(call), .advice = "Convert to i32 or f32."});
  return Op::average;
}

// Each rank's first element; behind the last one the number of all.
std::vector<std::size_t> offsets_of(std::span<const std::size_t> counts) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

void refuse_overlap(const Call& call, const void* in, std::size_t in_elements, const void* out,
                    std::size_t out_elements, const char* advice) {
  const auto* first = static_cast<const std::byte*>(in);
  const auto* second = static_cast<const std::byte*>(out);
  const std::size_t bytes = size_of(call.dtype);
  if (std::less<>()(first, second + out_elements * bytes) &&
      std::less<>()(second, first + in_elements * bytes))
    throw InvalidInput("NCCL cannot do this in place",
                       {.during = describe(call), .advice = advice});
}

const std::byte* at(const void* data, std::size_t element, DataType dtype) {
  return static_cast<const std::byte*>(data) + element * size_of(dtype);
}
std::byte* at(void* data, std::size_t element, DataType dtype) {
  return static_cast<std::byte*>(data) + element * size_of(dtype);
}

}  // namespace

struct NcclGroup::Exchange {
  const void* in = nullptr;
  std::vector<std::size_t> send_offsets;  // in elements
  std::vector<std::size_t> send_counts;
  void* out = nullptr;
  std::vector<std::size_t> receive_offsets;
  std::span<const std::size_t> receive_counts;
  DataType dtype = DataType::u8;
  DeviceStream stream = nullptr;
};

NcclGroup::NcclGroup(const NcclLibrary& library, std::unique_ptr<Communicator> communicator,
                     int rank, int size, std::chrono::milliseconds timeout)
    : library_(library),
      communicator_(std::move(communicator)),
      rank_(rank),
      size_(size),
      timeout_(timeout) {}

std::string NcclGroup::name() const { return "NCCL " + version_text(library_.version()); }

Call NcclGroup::begin(Call call) {
  call.sequence = ++sequence_;
  check_arguments(call, rank_, size_);
  return call;
}

void NcclGroup::run(const Call& call, const std::function<Result(Comm)>& start) {
  communicator_->call(describe(call) + " over NCCL", Deadline::after(timeout_), start);
}

Result NcclGroup::exchange(const Exchange& e, Comm comm) const {
  const Type type = type_of(e.dtype);
  Result result = library_.group_start();
  if (result != Result::success) return result;
  for (std::size_t peer = 0; peer < e.receive_counts.size(); ++peer) {
    const auto* from = at(e.in, e.send_offsets[peer], e.dtype);
    auto* to = at(e.out, e.receive_offsets[peer], e.dtype);
    const auto number = static_cast<int>(peer);
    if (number == rank_ && from == to) continue;  // lies where it belongs
    if (e.send_counts[peer] > 0 && result == Result::success)
      result = library_.send(from, e.send_counts[peer], type, number, comm, e.stream);
    if (e.receive_counts[peer] > 0 && result == Result::success)
      result = library_.receive(to, e.receive_counts[peer], type, number, comm, e.stream);
  }
  // Also after a failure: the group is this thread's, and would take in its next calls.
  const Result ended = library_.group_end();
  return result == Result::success ? ended : result;
}

void NcclGroup::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                             DataType dtype, DeviceStream stream) {
  const auto rank = static_cast<std::size_t>(rank_);
  Call call{.kind = CallKind::all_gather_v, .dtype = dtype, .in = in, .out = out};
  call.receive_counts = counts;
  std::vector<std::size_t> offsets;
  if (counts.size() == static_cast<std::size_t>(size_)) {  // else begin() refuses it
    offsets = offsets_of(counts);
    call.count = counts[rank];
    if (in == nullptr && out != nullptr) call.in = at(out, offsets[rank], dtype);
  }
  call = begin(call);
  if (call.in != at(out, offsets[rank], dtype))
    refuse_overlap(call, call.in, call.count, out, offsets.back(),
                   "Give other memory, or the rank's own place in the output.");
  if (offsets.back() == 0) return check();
  if (std::ranges::count(counts, counts[0]) == size_) {
    run(call, [&](Comm comm) {
      return library_.all_gather(call.in, out, call.count, type_of(dtype), comm, stream);
    });
    return;
  }
  const auto size = counts.size();
  const Exchange all{.in = call.in,
                     .send_offsets = std::vector<std::size_t>(size, 0),
                     .send_counts = std::vector<std::size_t>(size, call.count),
                     .out = out,
                     .receive_offsets = std::move(offsets),
                     .receive_counts = counts,
                     .dtype = dtype,
                     .stream = stream};
  run(call, [&](Comm comm) { return exchange(all, comm); });
}

void NcclGroup::all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                             std::span<const std::size_t> receive_counts, DataType dtype,
                             DeviceStream stream) {
  Call call{.kind = CallKind::all_to_all_v, .dtype = dtype, .in = in, .out = out};
  call.send_counts = send_counts;
  call.receive_counts = receive_counts;
  call = begin(call);
  const auto rank = static_cast<std::size_t>(rank_);
  if (send_counts[rank] != receive_counts[rank])
    throw InvalidInput(fmt::format("rank {} sends {} elements to itself and expects {}", rank_,
                                   send_counts[rank], receive_counts[rank]),
                       {.during = describe(call), .advice = "Give the same count for both."});
  Exchange all{.in = in,
               .send_offsets = offsets_of(send_counts),
               .send_counts = {send_counts.begin(), send_counts.end()},
               .out = out,
               .receive_offsets = offsets_of(receive_counts),
               .receive_counts = receive_counts,
               .dtype = dtype,
               .stream = stream};
  if (size_ > 1 || in != out)
    refuse_overlap(call, in, all.send_offsets.back(), out, all.receive_offsets.back(),
                   "Give memory for the output that does not overlap the input.");
  if (all.send_offsets.back() == 0 && all.receive_offsets.back() == 0) return check();
  run(call, [&](Comm comm) { return exchange(all, comm); });
}

void NcclGroup::broadcast(void* data, std::size_t count, DataType dtype, int root,
                          DeviceStream stream) {
  const Call call = begin({.kind = CallKind::broadcast,
                           .dtype = dtype,
                           .root = root,
                           .count = count,
                           .in = data,
                           .out = data});
  if (count == 0) return check();
  run(call, [&](Comm comm) {
    return library_.broadcast(data, data, count, type_of(dtype), root, comm, stream);
  });
}

void NcclGroup::all_reduce(const void* in, void* out, std::size_t count, DataType dtype,
                           ReduceOp op, DeviceStream stream) {
  const Call call = begin({.kind = CallKind::all_reduce,
                           .dtype = dtype,
                           .op = op,
                           .count = count,
                           .in = in,
                           .out = out});
  const Op nccl_op = op_of(call);
  if (count == 0) return check();
  run(call, [&](Comm comm) {
    return library_.all_reduce(in, out, count, type_of(dtype), nccl_op, comm, stream);
  });
}

void NcclGroup::reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype,
                               ReduceOp op, DeviceStream stream) {
  const Call call = begin({.kind = CallKind::reduce_scatter,
                           .dtype = dtype,
                           .op = op,
                           .count = count,
                           .in = in,
                           .out = out});
  const Op nccl_op = op_of(call);
  if (out != at(in, static_cast<std::size_t>(rank_) * count, dtype))
    refuse_overlap(call, in, count * static_cast<std::size_t>(size_), out, count,
                   "Give other memory, or the rank's own place in the input.");
  if (count == 0) return check();
  run(call, [&](Comm comm) {
    return library_.reduce_scatter(in, out, count, type_of(dtype), nccl_op, comm, stream);
  });
}

}  // namespace cohort::collective::nccl
