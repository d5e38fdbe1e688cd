#include "script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective::testing {

namespace {

constexpr DataType kTypes[] = {DataType::f32,  DataType::f64, DataType::f16,
                               DataType::bf16, DataType::i8,  DataType::u8,
                               DataType::i32,  DataType::i64, DataType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::minimum, ReduceOp::maximum,
                             ReduceOp::product};
constexpr CallKind kKinds[] = {CallKind::broadcast, CallKind::all_gather_v, CallKind::all_to_all_v,
                               CallKind::all_reduce, CallKind::reduce_scatter};
constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

bool reduces(CallKind kind) {
  return kind == CallKind::all_reduce || kind == CallKind::reduce_scatter;
}

std::size_t sum(const std::vector<std::size_t>& counts, std::size_t first) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(first),
                         std::size_t{0});
}

void append(Bytes& to, const Bytes& from, std::size_t begin, std::size_t bytes) {
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
  to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
}

// The order of addition of docs/algorithms.md, rounded to the type at each node.
Bytes tree(DataType type, ReduceOp op, const std::vector<Bytes>& inputs, std::size_t first,
           std::size_t count) {
  if (count == 1) return inputs[first];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return reference_reduce(
      type,
      {tree(type, op, inputs, first, left), tree(type, op, inputs, first + left, count - left)},
      {.op = op});
}

}  // namespace

std::string describe(const Step& step) {
  return fmt::format("{} of {} x {}, {}, root {}, {}, stream {}", to_string(step.kind), step.count,
                     to_string(step.dtype), to_string(step.op), step.root,
                     step.in_place ? "in place" : "two buffers", step.stream);
}

std::vector<Step> every_call(int size, std::size_t count) {
  std::vector<Step> steps;
  for (const CallKind kind : kKinds)
    for (const DataType dtype : kTypes)
      for (const ReduceOp op : kOps)
        for (const bool in_place : {false, true}) {
          if (!reduces(kind) && op != ReduceOp::sum) continue;
          if (dtype == DataType::boolean && op == ReduceOp::average) continue;
          steps.push_back({kind, dtype, op, count, static_cast<int>(count) % size, in_place, 0});
        }
  return steps;
}

std::vector<Step> random_calls(int size, unsigned seed, int length, std::size_t most, int streams) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random()) % end; };
  std::vector<Step> steps;
  for (int i = 0; i < length; ++i) {
    Step step{kKinds[below(5)],
              kTypes[below(9)],
              kOps[below(5)],
              below(2) ? below(100) : below(most),
              static_cast<int>(below(static_cast<std::size_t>(size))),
              below(2) == 0,
              static_cast<int>(below(static_cast<std::size_t>(streams)))};
    if (step.dtype == DataType::boolean && step.op == ReduceOp::average) step.op = ReduceOp::sum;
    steps.push_back(step);
  }
  return steps;
}

// What `rank` gives to, or gets from, each rank.
std::vector<std::size_t> Script::counts(const Step& step, int rank, bool receives) const {
  std::vector<std::size_t> result;
  for (int peer = 0; peer < size_; ++peer) {
    const int from = receives ? peer : rank;
    const int to = receives ? rank : peer;
    // In place both directions are alike. Some get nothing.
    const int factor = step.kind == CallKind::all_gather_v ? (peer * 2 + 1) % 4
                       : step.in_place                     ? (from + to) % 4
                                                           : (from * 3 + to * 2) % 5;
    result.push_back(step.count * static_cast<std::size_t>(factor) / 3);
  }
  return result;
}

std::size_t Script::in_count(const Step& step, int rank) const {
  const auto n = static_cast<std::size_t>(size_);
  switch (step.kind) {
    case CallKind::all_gather_v:
      return counts(step, rank, true)[static_cast<std::size_t>(rank)];
    case CallKind::all_to_all_v:
      return sum(counts(step, rank, false), n);
    case CallKind::reduce_scatter:
      return step.count * n;
    default:
      return step.count;
  }
}

std::size_t Script::out_count(const Step& step, int rank) const {
  const auto n = static_cast<std::size_t>(size_);
  if (step.kind == CallKind::all_gather_v || step.kind == CallKind::all_to_all_v)
    return sum(counts(step, rank, true), n);
  return step.count;
}

std::size_t Script::place_in_out(const Step& step) const {
  if (step.kind != CallKind::all_gather_v) return 0;
  return sum(counts(step, rank_, true), static_cast<std::size_t>(rank_)) * size_of(step.dtype);
}

Script::Script(Gpu& gpu, int rank, int size, std::vector<Step> steps, unsigned seed)
    : gpu_(gpu),
      rank_(rank),
      size_(size),
      seed_(seed),
      steps_(std::move(steps)),
      stream_(gpu.make_stream()) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const std::size_t element = size_of(step.dtype);
    const std::size_t in = in_count(step, rank) * element;
    const std::size_t out = out_count(step, rank) * element;
    // Aligned as the elements are, and no more than that.
    bytes_ = (bytes_ + 7) / 8 * 8 + i % 3 * element;
    Place place{bytes_, bytes_, 0};
    if (step.kind == CallKind::reduce_scatter && step.in_place) {
      place.out += i % 2 ? static_cast<std::size_t>(rank) * out : 0;
    } else if (step.kind == CallKind::all_gather_v && step.in_place) {
      place.in += place_in_out(step);
    } else if (!step.in_place && step.kind != CallKind::broadcast) {
      place.out += (in + 7) / 8 * 8;
    }
    place.end = place.out + out;
    bytes_ = std::max(place.end, place.in + in) + kGuard;
    places_.push_back(place);
  }
  memory_ = gpu.allocate(bytes_ + 1);
  upload(seed);
}

Bytes Script::contribution_of(std::size_t index, int rank) const {
  const Step& step = steps_[index];
  const int variety = static_cast<int>(seed_ % 1000) * 64 + static_cast<int>(index % 7) * 8;
  return contribution(step.dtype, in_count(step, rank), variety + rank);
}

void Script::upload(unsigned seed) {
  seed_ = seed;
  Bytes image(bytes_, kGuardByte);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Bytes own = contribution_of(i, rank_);
    if (!own.empty()) std::memcpy(image.data() + places_[i].in, own.data(), own.size());
  }
  gpu_.copy(memory_, image.data(), image.size(), stream_);
  if (!gpu_.wait(stream_, Deadline::after(std::chrono::seconds(60))))
    throw std::runtime_error("the upload does not end");
}

void Script::put(DeviceGroup& group, const std::vector<DeviceStream>& streams) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const DeviceStream stream = streams[static_cast<std::size_t>(step.stream)];
    std::byte* in = memory_ + places_[i].in;
    std::byte* out = memory_ + places_[i].out;
    const std::vector<std::size_t> sends = counts(step, rank_, false);
    const std::vector<std::size_t> receives = counts(step, rank_, true);
    switch (step.kind) {
      case CallKind::broadcast:
        group.broadcast(out, step.count, step.dtype, step.root, stream);
        break;
      case CallKind::all_gather_v:
        group.all_gather_v(step.in_place && i % 2 ? nullptr : in, out, receives, step.dtype,
                           stream);
        break;
      case CallKind::all_to_all_v:
        group.all_to_all_v(in, sends, out, receives, step.dtype, stream);
        break;
      case CallKind::all_reduce:
        group.all_reduce(in, out, step.count, step.dtype, step.op, stream);
        break;
      default:
        group.reduce_scatter(in, out, step.count, step.dtype, step.op, stream);
    }
  }
}

Bytes Script::reduced(const Step& step, const std::vector<Bytes>& inputs) const {
  // In these types every node of the tree is what a Group has there: the same bits as a Group's.
  for (const DataType exact : {DataType::f32, DataType::f64, DataType::i32, DataType::i64})
    if (step.dtype == exact) return reference_reduce(step.dtype, inputs, {.op = step.op});
  if (step.op != ReduceOp::average) return tree(step.dtype, step.op, inputs, 0, inputs.size());
  Bytes result = tree(step.dtype, ReduceOp::sum, inputs, 0, inputs.size());
  const Kernels& kernel = kernels(step.dtype, ReduceOp::sum);
  const std::size_t count = result.size() / size_of(step.dtype);
  Bytes accumulator(count * kernel.accumulator_bytes);
  kernel.load(accumulator.data(), result.data(), count);
  kernel.divide(accumulator.data(), size_, count);
  kernel.store(result.data(), accumulator.data(), count);
  return result;
}

Bytes Script::expected(std::size_t index) const {
  const Step& step = steps_[index];
  const std::size_t element = size_of(step.dtype);
  const auto self = static_cast<std::size_t>(rank_);
  if (step.kind == CallKind::broadcast) return contribution_of(index, step.root);
  std::vector<Bytes> inputs;
  Bytes result;
  for (int peer = 0; peer < size_; ++peer) {
    const Bytes given = contribution_of(index, peer);
    Bytes part;
    if (step.kind == CallKind::all_to_all_v) {
      const auto sends = counts(step, peer, false);
      append(part, given, sum(sends, self) * element, sends[self] * element);
    } else if (step.kind == CallKind::reduce_scatter) {
      append(part, given, self * step.count * element, step.count * element);
    } else {
      part = given;
    }
    append(result, part, 0, part.size());
    inputs.push_back(std::move(part));
  }
  return reduces(step.kind) ? reduced(step, inputs) : result;
}

std::string Script::compare() {
  Bytes image(bytes_);
  gpu_.copy(image.data(), memory_, image.size(), stream_);
  if (!gpu_.wait(stream_, Deadline::after(std::chrono::seconds(60)))) return "the download hangs";
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto begin = image.begin() + static_cast<std::ptrdiff_t>(places_[i].out);
    const auto end = image.begin() + static_cast<std::ptrdiff_t>(places_[i].end);
    const auto at = first_difference(Bytes(begin, end), expected(i));
    if (at >= 0)
      return fmt::format("rank {} of {}: call {}, {}: byte {} differs", rank_, size_, i,
                         describe(steps_[i]), at);
    // Behind it lies the guard, or, in place, the rest of the input.
    const bool guarded = steps_[i].kind != CallKind::reduce_scatter || !steps_[i].in_place;
    if (guarded && std::any_of(end, end + kGuard, [](std::byte b) { return b != kGuardByte; }))
      return fmt::format("rank {} of {}: call {}, {}: wrote past its end", rank_, size_, i,
                         describe(steps_[i]));
  }
  return {};
}

}  // namespace cohort::collective::testing
