#include "cohort/capi/functions/boundary.h"
#include "cohort/capi/functions/buffers.h"
#include "cohort/capi/functions/read_request.h"
#include "cohort/capi/functions/times.h"
#include "cohort/collective/reduction/shards.h"

using namespace cohort::capi;

namespace {

// The call that `request` becomes, submitted.
std::unique_ptr<cohort_call> submit(cohort_world* world, const cohort_request* request,
                                    bool driven) {
  require(world, "world");
  auto call = std::make_unique<cohort_call>();
  call->world = world->get();
  const cohort_request asked = read_options(request);
  call->engine = call->world->engine(asked.set);
  call->request = read_request(asked, call->engine->rank(), call->engine->size());
  call->engine->submit(call->request, driven);
  return call;
}

void expect_success(const cohort_call& call) {
  if (!call.request->is_over())
    throw cohort::InvalidInput("the request is under way", {.advice = "Wait for it first."});
  if (call.request->failure.happened()) throw StatusError(call.request->failure);
}

}  // namespace

extern "C" {

cohort_status cohort_submit(cohort_world* world, const cohort_request* request, cohort_call** call,
                            cohort_error** error) {
  return guarded(error, [&] {
    require(request, "request");
    require(call, "call");
    *call = nullptr;
    *call = submit(world, request, false).release();
  });
}

cohort_status cohort_run(cohort_world* world, const cohort_request* request, cohort_call** call,
                         cohort_error** error) {
  return guarded(error, [&] {
    require(request, "request");
    require(call, "call");
    *call = nullptr;
    const CallerWaits waits;
    auto made = submit(world, request, true);
    try {
      made->engine->wait(*made->request, cohort::Deadline::never());
    } catch (const cohort::Interrupted&) {
      // The caller takes its memory back: not before the engine is done with it.
      made->engine->wait_until_over(*made->request);
      throw;
    }
    if (made->request->failure.happened()) throw StatusError(made->request->failure);
    *call = made.release();
  });
}

int32_t cohort_call_poll(cohort_call* call) {
  return call == nullptr || call->request->is_over() ? 1 : 0;
}

cohort_status cohort_call_wait(cohort_call* call, int64_t timeout_ms, cohort_error** error) {
  bool over = true;
  const cohort_status status = guarded(error, [&] {
    require(call, "call");
    const CallerWaits waits;
    over = call->engine->wait(*call->request,
                              timeout_ms < 0 ? cohort::Deadline::never()
                                             : cohort::Deadline::after(time_of_ms(timeout_ms)));
    if (over && call->request->failure.happened()) throw StatusError(call->request->failure);
  });
  return over ? status : COHORT_PENDING;
}

void cohort_call_free(cohort_call* call) { delete call; }

cohort_status cohort_call_result(cohort_call* call, int32_t index, cohort_tensor* result,
                                 cohort_error** error) {
  return guarded(error, [&] {
    require(call, "call");
    require(result, "result");
    expect_success(*call);
    const Request& request = *call->request;
    const auto count = request.signature->tensors.size();
    if (index < 0 || static_cast<std::size_t>(index) >= count)
      throw cohort::InvalidInput(fmt::format("index {} of {} results", index, count));
    const auto place = static_cast<std::size_t>(index);
    const TensorType& type = request.signature->tensors[place];
    const bool allocated = place < request.results.size();
    const auto& shape = allocated ? request.results[place].shape : type.shape;
    *result = {.in = request.memory[place].in,
               .out = allocated ? request.results[place].memory : request.memory[place].out,
               .dtype = type.dtype,
               .ndim = static_cast<int32_t>(shape.size()),
               .shape = shape.data()};
  });
}

cohort_status cohort_call_received_splits(cohort_call* call, const int64_t** splits, int32_t* count,
                                          cohort_error** error) {
  return guarded(error, [&] {
    require(call, "call");
    require(splits, "splits");
    require(count, "count");
    expect_success(*call);
    *splits = call->request->received_splits.data();
    *count = static_cast<int32_t>(call->request->received_splits.size());
  });
}

int64_t cohort_call_value(cohort_call* call) {
  return call != nullptr && call->request->is_over() ? call->request->value : -1;
}

cohort_status cohort_set_add(cohort_world* world, const int32_t* ranks, int32_t count, int32_t* id,
                             cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    require(ranks, "ranks");
    require(id, "id");
    const CallerWaits waits;
    *id = world->get()->add_set({ranks, static_cast<std::size_t>(std::max(count, 0))});
  });
}

cohort_status cohort_set_remove(cohort_world* world, int32_t id, cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    const CallerWaits waits;
    world->get()->remove_set(id);
  });
}

cohort_status cohort_set_ranks(cohort_world* world, int32_t id, int32_t* ranks, int32_t capacity,
                               int32_t* count, cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    require(count, "count");
    const auto all = world->get()->ranks_of(id);
    *count = static_cast<int32_t>(all.size());
    for (std::size_t i = 0; ranks != nullptr && i < all.size(); ++i)
      if (static_cast<int32_t>(i) < capacity) ranks[i] = all[i];
  });
}

cohort_status cohort_buffer_allocate(cohort_world* world, size_t bytes, void** memory,
                                     cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    require(memory, "memory");
    *memory = nullptr;
    *memory = keep_buffer(world->get()->allocate(bytes));
  });
}

void cohort_buffer_free(cohort_world* /*world*/, void* memory) {
  guarded(nullptr, [&] { free_buffer(memory); });
}

cohort_status cohort_shard_nodes(cohort_world* world, int32_t shards, cohort_shard_node* nodes,
                                 int32_t capacity, int32_t* count, cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    require(count, "count");
    const auto open = world->get();
    const auto own = shard_nodes(open->rank(), open->size(), shards);
    *count = static_cast<int32_t>(own.size());
    for (std::size_t i = 0; nodes != nullptr && i < own.size(); ++i)
      if (static_cast<int32_t>(i) < capacity) nodes[i] = {own[i].first, own[i].count};
  });
}

cohort_status cohort_shard_add(int32_t dtype, const void* a, const void* b, void* out,
                               int64_t count, cohort_error** error) {
  return guarded(error, [&] {
    if (count == 0) return;
    require(a, "a");
    require(b, "b");
    require(out, "out");
    add_shards(dtype, a, b, out, count);
  });
}

cohort_status cohort_timeline_start(cohort_world* world, const char* path, int32_t mark_cycles,
                                    cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    require(path, "path");
    world->get()->start_timeline(path, mark_cycles != 0);
  });
}

cohort_status cohort_timeline_stop(cohort_world* world, cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    world->get()->stop_timeline();
  });
}

}  // extern "C"
