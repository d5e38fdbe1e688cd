#include "cohort/capi/execution/executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/capi/execution/adasum.h"
#include "cohort/capi/negotiation/element_type.h"

namespace cohort::capi {

namespace {

using collective::CallOptions;
using collective::DataType;
using collective::ReduceOp;
using collective::ReduceOptions;

// A slow rank is no error. The group itself notices one that is dead.
const CallOptions kNoLimit{Deadline::never()};

ReduceOptions reduction_of(const Signature& signature) {
  constexpr ReduceOp kOps[] = {ReduceOp::average, ReduceOp::sum,     ReduceOp::sum,
                               ReduceOp::minimum, ReduceOp::maximum, ReduceOp::product};
  return {.op = kOps[signature.op],
          .pre_scale = signature.prescale,
          .post_scale = signature.postscale,
          .deadline = Deadline::never()};
}

void put_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

bool overlaps(const std::byte* a, const std::byte* b, std::size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

}  // namespace

Executor::Executor(collective::Group& group, ExecutorOptions options)
    : group_(group), options_(std::move(options)) {}

void Executor::run(std::span<Task> tasks, const std::function<void(Task&)>& finished) {
  std::size_t next = 0;
  while (next < tasks.size()) {
    if (const std::size_t fused = fuse(tasks.subspan(next), finished); fused > 0) {
      next += fused;
      continue;
    }
    run_one(tasks[next]);
    finished(tasks[next++]);
  }
}

// The fused all_reduce of the first tasks; how many they were. 0: the first does not go with others.
std::size_t Executor::fuse(std::span<Task> tasks, const std::function<void(Task&)>& finished) {
  const auto is_fusible = [](const Task& task) {
    return task.unit.mismatch.empty() && task.unit.kind == Kind::all_reduce &&
           task.unit.any().op != COHORT_ADASUM;
  };
  if (tasks.size() < 2 || options_.fusion_bytes == 0 || !is_fusible(tasks[0])) return 0;
  const Signature& first = tasks[0].unit.any();
  std::size_t count = 0, bytes = 0;
  for (const Task& task : tasks) {
    if (!is_fusible(task)) break;
    const Signature& own = task.unit.any();
    if (own.op != first.op || own.prescale != first.prescale || own.postscale != first.postscale)
      break;
    const bool fits =
        std::all_of(own.tensors.begin(), own.tensors.end(), [&](const TensorType& tensor) {
          bytes += tensor.bytes();
          return tensor.dtype == first.tensors[0].dtype && tensor.bytes() <= kFused &&
                 bytes <= options_.fusion_bytes;
        });
    if (!fits) break;
    ++count;
  }
  if (count < 2) return 0;
  std::vector<Piece> pieces;
  for (const Task& task : tasks.first(count)) {
    const std::vector<Piece> own = pieces_of(task);
    pieces.insert(pieces.end(), own.begin(), own.end());
  }
  all_reduce(first, pieces);
  for (Task& task : tasks.first(count)) finished(task);
  return count;
}

void Executor::run_one(Task& task) {
  if (!task.unit.mismatch.empty()) {
    if (task.request) task.request->failure = {COHORT_MISMATCH, task.unit.mismatch};
    return;
  }
  const Signature& signature = task.unit.any();
  switch (task.unit.kind) {
    case Kind::all_reduce:
      if (signature.op == COHORT_ADASUM) return adasum(task);
      return all_reduce(signature, pieces_of(task));
    case Kind::all_gather:
      return all_gather(task);
    case Kind::broadcast:
      return broadcast(task);
    case Kind::all_to_all:
      return all_to_all(task);
    case Kind::reduce_scatter:
      return reduce_scatter(task);
    case Kind::shard_sum:
      return shard_sum(task);
    case Kind::barrier:
      return;  // that all ranks have agreed on it is what it waits for
    case Kind::join:
      task.request->value = task.unit.last_joined;
      return;
    case Kind::add_set:
    case Kind::remove_set:
      try {
        if (!options_.change_sets)
          throw InvalidInput("a process set has no process sets of its own");
        options_.change_sets(signature, *task.request);
      } catch (const InvalidInput&) {
        task.request->failure = current_failure();
      }
      return;
  }
}

std::byte* Executor::scratch(std::size_t bytes) {
  if (buffer_.bytes() < bytes) {
    const std::size_t larger = std::max({bytes, buffer_.bytes() * 2, kFused});
    buffer_ = collective::Buffer();
    buffer_ = group_.allocate(larger);
  }
  return buffer_.data();
}

std::vector<Executor::Piece> Executor::pieces_of(const Task& task) {
  const Signature& signature = task.unit.any();
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorType& type = signature.tensors[i];
    if (task.request)
      pieces.push_back({&type, task.request->memory[i].in, task.request->memory[i].out});
    else
      pieces.push_back({&type, nullptr, nullptr});
  }
  return pieces;
}

// In runs of small tensors of one type, each reduced together, and large tensors one by one. A rank
// that has joined has no memory in `pieces`.
void Executor::all_reduce(const Signature& signature, std::span<const Piece> pieces) {
  const ReduceOptions options = reduction_of(signature);
  std::size_t next = 0;
  while (next < pieces.size()) {
    const std::int32_t dtype = pieces[next].type->dtype;
    const std::size_t element = bytes_of_element(dtype);
    std::size_t end = next, bytes = 0;
    while (end < pieces.size() && pieces[end].type->dtype == dtype &&
           pieces[end].type->bytes() <= kFused &&
           bytes + pieces[end].type->bytes() <= options_.fusion_bytes)
      bytes += pieces[end++].type->bytes();
    if (end - next < 2) {
      const Piece& piece = pieces[next++];
      const std::size_t size = piece.type->bytes();
      if (size == 0) continue;
      const std::byte* in = piece.in;
      std::byte* out = piece.out;
      if (in == nullptr) {
        zeros_.assign(size, std::byte{0});
        in = out = zeros_.data();
      } else if (overlaps(in, out, size)) {
        std::memmove(out, in, size);
        in = out;
      }
      group_.all_reduce(in, out, size / element, *reducible(dtype), options);
      continue;
    }
    const std::span<const Piece> run = pieces.subspan(next, end - next);
    next = end;
    if (bytes == 0) continue;
    std::byte* packed = scratch(bytes);
    std::byte* at = packed;
    for (const Piece& piece : run) {
      if (piece.in != nullptr)
        put_bytes(at, piece.in, piece.type->bytes());
      else
        std::memset(at, 0, piece.type->bytes());
      at += piece.type->bytes();
    }
    group_.all_reduce(packed, packed, bytes / element, *reducible(dtype), options);
    at = packed;
    for (const Piece& piece : run) {
      if (piece.out != nullptr) put_bytes(piece.out, at, piece.type->bytes());
      at += piece.type->bytes();
    }
  }
}

void Executor::adasum(Task& task) {
  const Signature& signature = task.unit.any();
  const auto ranks = static_cast<std::size_t>(group_.size());
  for (const Piece& piece : pieces_of(task)) {
    const std::size_t bytes = piece.type->bytes();
    if (bytes == 0) continue;
    std::byte* all = scratch(bytes * ranks);
    group_.all_gather(piece.in, all, bytes, DataType::u8, kNoLimit);
    combine_adasum(all, ranks, piece.type->elements(), *reducible(piece.type->dtype),
                   signature.prescale, signature.postscale, piece.out);
  }
}

void Executor::all_gather(Task& task) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  for (std::size_t i = 0; i < task.request->memory.size(); ++i) {
    const TensorType& own = task.request->signature->tensors[i];
    const std::size_t row = own.row_bytes();
    std::vector<std::size_t> counts(ranks);
    std::vector<std::int64_t> shape = own.shape;
    if (shape.empty()) shape.push_back(0);
    shape[0] = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t rows = task.unit.ranks[rank]->tensors[i].rows();
      counts[rank] = static_cast<std::size_t>(rows) * row;
      shape[0] += rows;
    }
    std::byte* out = task.request->allocate_result(i, std::move(shape));
    if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == 0) continue;
    group_.all_gather_v(task.request->memory[i].in, out, counts, DataType::u8, kNoLimit);
  }
}

void Executor::broadcast(Task& task) {
  const int root = task.unit.any().root;
  for (std::size_t i = 0; i < task.request->memory.size(); ++i) {
    const TensorMemory& memory = task.request->memory[i];
    const std::size_t bytes = task.request->signature->tensors[i].bytes();
    if (bytes == 0) continue;
    if (group_.rank() == root && memory.in != memory.out)
      std::memmove(memory.out, memory.in, bytes);
    group_.broadcast(memory.out, bytes, DataType::u8, root, kNoLimit);
  }
}

void Executor::all_to_all(Task& task) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto self = static_cast<std::size_t>(group_.rank());
  // Rows that `from` sends to `to`.
  const auto rows = [&](std::size_t from, std::size_t to, std::size_t tensor) {
    const Signature& signature = *task.unit.ranks[from];
    return signature.splits.empty()
               ? signature.tensors[tensor].rows() / static_cast<std::int64_t>(ranks)
               : signature.splits[to];
  };
  for (std::size_t i = 0; i < task.request->memory.size(); ++i) {
    const TensorType& own = task.request->signature->tensors[i];
    const std::size_t row = own.row_bytes();
    std::vector<std::size_t> send(ranks), receive(ranks);
    std::vector<std::int64_t> shape = own.shape;
    shape[0] = 0;
    task.request->received_splits.assign(ranks, 0);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      send[rank] = static_cast<std::size_t>(rows(self, rank, i)) * row;
      const std::int64_t received = rows(rank, self, i);
      receive[rank] = static_cast<std::size_t>(received) * row;
      task.request->received_splits[rank] = received;
      shape[0] += received;
    }
    std::byte* out = task.request->allocate_result(i, std::move(shape));
    group_.all_to_all_v(task.request->memory[i].in, send, out, receive, DataType::u8, kNoLimit);
  }
}

void Executor::reduce_scatter(Task& task) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto self = static_cast<std::size_t>(group_.rank());
  const ReduceOptions options = reduction_of(task.unit.any());
  for (std::size_t i = 0; i < task.request->memory.size(); ++i) {
    const TensorType& type = task.request->signature->tensors[i];
    const std::size_t row = type.row_bytes();
    const std::size_t least = static_cast<std::size_t>(type.rows()) / ranks;
    const std::size_t larger =
        static_cast<std::size_t>(type.rows()) % ranks;  // ranks with one more
    std::vector<std::int64_t> shape = type.shape;
    shape[0] = static_cast<std::int64_t>(least + (self < larger ? 1 : 0));
    const std::size_t bytes = static_cast<std::size_t>(shape[0]) * row;
    std::byte* out = task.request->allocate_result(i, std::move(shape));
    if (type.bytes() == 0) continue;
    const std::byte* in = task.request->memory[i].in;
    const DataType dtype = *reducible(type.dtype);
    const std::size_t element = bytes_of_element(type.dtype);
    if (larger == 0) {
      group_.reduce_scatter(in, out, bytes / element, dtype, options);
      continue;
    }
    // Parts of equal size: those of the later ranks get a row of zeros.
    const std::size_t part = (least + 1) * row;
    std::byte* padded = scratch(part * ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t filled = (least + (rank < larger ? 1 : 0)) * row;
      put_bytes(padded + rank * part, in, filled);
      std::memset(padded + rank * part + filled, 0, part - filled);
      in += filled;
    }
    group_.reduce_scatter(padded, padded, part / element, dtype, options);
    put_bytes(out, padded, bytes);
  }
}

void Executor::shard_sum(Task& task) {
  const Signature& signature = task.unit.any();
  auto& reducer = shard_reducers_[signature.shards];
  if (!reducer) reducer = std::make_unique<collective::ShardReducer>(group_, signature.shards);
  const TensorType& type = signature.tensors[0];
  reducer->all_reduce(task.request->partials, task.request->memory[0].out, type.elements(),
                      *reducible(type.dtype), signature.postscale, kNoLimit);
}

}  // namespace cohort::capi
