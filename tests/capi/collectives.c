/* Every kind of request, as a program in C makes it. Run by `cohort run -n N`. */
#include "check.h"

static int rank, size;

static void all_reduces(cohort_world* world) {
  float in[6], out[6];
  const int64_t shape[2] = {2, 3};
  for (int i = 0; i < 6; ++i) in[i] = (float)(rank + i);
  cohort_tensor tensor = tensor_of(in, out, COHORT_F32, 2, shape);
  cohort_request request = request_of(COHORT_ALLREDUCE, "a", &tensor, 1);
  for (int round = 0; round < 3; ++round) { /* later ones from memory */
    cohort_call* call = NULL;
    OK(cohort_run(world, &request, &call, &error));
    cohort_call_free(call);
    for (int i = 0; i < 6; ++i) CHECK(out[i] == (float)(size * (size - 1) / 2 + size * i));
  }
  request.op = COHORT_AVERAGE;
  request.prescale = 2;
  request.postscale = 0.5;
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_tensor result;
  OK(cohort_call_result(call, 0, &result, &error));
  CHECK(result.out == (void*)out && result.ndim == 2 && result.shape[1] == 3);
  cohort_call_free(call);
  for (int i = 0; i < 6; ++i) CHECK(out[i] == (float)(size - 1) / 2 + (float)i);

  /* Scalars, nothing, several together, of two types, in place; large ones go alone. */
  double scalar = rank + 1;
  int64_t whole[2] = {rank, -1};
  const int64_t none[1] = {0}, two[1] = {2}, many[1] = {1 << 19};
  float* large = malloc(sizeof(float) << 19);
  for (int i = 0; i < 1 << 19; ++i) large[i] = (float)rank;
  cohort_tensor group[4] = {tensor_of(&scalar, &scalar, COHORT_F64, 0, NULL),
                            tensor_of(NULL, NULL, COHORT_F64, 1, none),
                            tensor_of(whole, whole, COHORT_I64, 1, two),
                            tensor_of(large, large, COHORT_F32, 1, many)};
  cohort_request grouped = request_of(COHORT_ALLREDUCE, "grouped", group, 4);
  OK(cohort_run(world, &grouped, &call, &error));
  cohort_call_free(call);
  CHECK(scalar == size * (size + 1) / 2);
  CHECK(whole[0] == size * (size - 1) / 2 && whole[1] == -size);
  CHECK(large[0] == (float)(size * (size - 1) / 2) && large[(1 << 19) - 1] == large[0]);
  free(large);
  int64_t most = rank;
  cohort_tensor one = tensor_of(&most, &most, COHORT_I64, 0, NULL);
  cohort_request maximum = request_of(COHORT_ALLREDUCE, "max", &one, 1);
  maximum.op = COHORT_MAX;
  OK(cohort_run(world, &maximum, &call, &error));
  cohort_call_free(call);
  CHECK(most == size - 1);
}

static int allocated = 0;
static void* give_memory(void* user, int32_t index, int32_t ndim, const int64_t* shape) {
  (void)user;
  CHECK(index == 0 && ndim == 2);
  ++allocated;
  return malloc((size_t)(shape[0] * shape[1] * 16));
}

static void gathers(cohort_world* world) {
  /* Rank r brings r + 1 rows; a type that is only moved. */
  double in[16];
  for (int i = 0; i < 16; ++i) in[i] = rank;
  const int64_t shape[2] = {rank + 1, 1};
  cohort_tensor tensor = tensor_of(in, NULL, COHORT_C128, 2, shape);
  cohort_request request = request_of(COHORT_ALLGATHER, "g", &tensor, 1);
  cohort_call* call = NULL;
  for (int own = 0; own < 2; ++own) {
    request.allocate = own ? give_memory : NULL;
    OK(cohort_run(world, &request, &call, &error));
    cohort_tensor result;
    OK(cohort_call_result(call, 0, &result, &error));
    CHECK(result.ndim == 2 && result.shape[0] == size * (size + 1) / 2 && result.shape[1] == 1);
    const double* values = result.out;
    for (int r = 0, at = 0; r < size; ++r)
      for (int i = 0; i < 2 * (r + 1); ++i) CHECK(values[at++] == r);
    if (own) free(result.out);
    cohort_call_free(call);
  }
  CHECK(allocated == 1);
}

static void broadcasts(cohort_world* world) {
  uint16_t in[3] = {1, 2, (uint16_t)rank}, out[3] = {0, 0, 0};
  const int64_t shape[1] = {3};
  cohort_tensor tensor = tensor_of(in, out, COHORT_U16, 1, shape);
  cohort_request request = request_of(COHORT_BROADCAST, "b", &tensor, 1);
  request.root = size - 1;
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_call_free(call);
  CHECK(out[0] == 1 && out[2] == size - 1);
  request.root = size;
  EXPECT_WORDS(COHORT_INVALID, "root rank", cohort_run(world, &request, &call, &error));
  CHECK(call == NULL);
}

static void exchanges(cohort_world* world) {
  /* Rank r sends r + p rows to rank p, each of which says who sent it. */
  int32_t in[64];
  int64_t splits[8], rows = 0;
  for (int p = 0; p < size; ++p) rows += splits[p] = rank + p;
  for (int i = 0; i < 64; ++i) in[i] = rank;
  cohort_tensor tensor = tensor_of(in, NULL, COHORT_I32, 1, &rows);
  cohort_request request = request_of(COHORT_ALLTOALL, "x", &tensor, 1);
  request.splits = splits;
  request.split_count = size;
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  const int64_t* received = NULL;
  int32_t count = 0;
  OK(cohort_call_received_splits(call, &received, &count, &error));
  CHECK(count == size);
  cohort_tensor result;
  OK(cohort_call_result(call, 0, &result, &error));
  const int32_t* values = result.out;
  for (int r = 0, at = 0; r < size; ++r) {
    CHECK(received[r] == r + rank);
    for (int i = 0; i < received[r]; ++i) CHECK(values[at++] == r);
  }
  cohort_call_free(call);
  request.split_count = 0; /* equal parts */
  rows = size;
  OK(cohort_run(world, &request, &call, &error));
  OK(cohort_call_result(call, 0, &result, &error));
  CHECK(result.shape[0] == size && ((const int32_t*)result.out)[size - 1] == size - 1);
  cohort_call_free(call);
}

static void scatters(cohort_world* world) {
  /* 2 rows for each rank and one more: rank 0 gets three. */
  float in[64];
  const int64_t shape[2] = {2 * size + 1, 2};
  for (int i = 0; i < 64; ++i) in[i] = (float)(rank * 100 + i);
  cohort_tensor tensor = tensor_of(in, NULL, COHORT_F32, 2, shape);
  cohort_request request = request_of(COHORT_REDUCESCATTER, "s", &tensor, 1);
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_tensor result;
  OK(cohort_call_result(call, 0, &result, &error));
  CHECK(result.shape[0] == (rank == 0 ? 3 : 2) && result.shape[1] == 2);
  const int first = rank == 0 ? 0 : 2 * (2 * rank + 1);
  for (int i = 0; i < 2 * result.shape[0]; ++i)
    CHECK(((const float*)result.out)[i] ==
          (float)(size * (first + i) + 100 * size * (size - 1) / 2));
  cohort_call_free(call);
}

static void adaptive_sums(cohort_world* world) {
  /* Equal vectors count once, orthogonal ones add up. */
  float same[2] = {3, 4}, own[8] = {0};
  const int64_t two[1] = {2}, eight[1] = {8};
  own[rank] = 1;
  cohort_tensor tensors[2] = {tensor_of(same, same, COHORT_F32, 1, two),
                              tensor_of(own, own, COHORT_F32, 1, eight)};
  cohort_request request = request_of(COHORT_ALLREDUCE, "adasum", tensors, 2);
  request.op = COHORT_ADASUM;
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_call_free(call);
  CHECK(same[0] == 3 && same[1] == 4);
  for (int i = 0; i < 8; ++i) CHECK(own[i] == (i < size ? 1.0f : 0.0f));
}

static void shard_sums(cohort_world* world) {
  enum { kShards = 8, kMost = 8 };
  cohort_shard_node nodes[kMost];
  int32_t count = 0;
  OK(cohort_shard_nodes(world, kShards, nodes, kMost, &count, &error));
  float values[kMost][2], out[2];
  const void* partials[kMost];
  for (int n = 0; n < count; ++n) {
    float sum[2] = {0, 0};
    for (int s = nodes[n].first; s < nodes[n].first + nodes[n].count; ++s) {
      const float shard[2] = {(float)s, 1};
      OK(cohort_shard_add(COHORT_F32, sum, shard, values[n], 2, &error));
      memcpy(sum, values[n], sizeof sum);
    }
    partials[n] = values[n];
  }
  const int64_t two[1] = {2};
  cohort_tensor tensor = tensor_of(NULL, out, COHORT_F32, 1, two);
  cohort_request request = request_of(COHORT_SHARD_SUM, "shards", &tensor, 1);
  request.shards = kShards;
  request.partials = partials;
  request.postscale = 0.125;
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_call_free(call);
  CHECK(out[0] == 3.5f && out[1] == 1.0f);
}

static void joins(cohort_world* world) {
  /* Rank r has r + 1 batches. */
  cohort_call* call = NULL;
  const int64_t one[1] = {1};
  for (int batch = 0; batch <= rank; ++batch) {
    float value = 1;
    char name[32];
    snprintf(name, sizeof name, "batch.%d", batch);
    cohort_tensor tensor = tensor_of(&value, &value, COHORT_F32, 1, one);
    cohort_request request = request_of(COHORT_ALLREDUCE, name, &tensor, 1);
    OK(cohort_run(world, &request, &call, &error));
    cohort_call_free(call);
    CHECK(value == (float)(size - batch));
  }
  cohort_request join = request_of(COHORT_JOIN, "join", NULL, 0);
  OK(cohort_run(world, &join, &call, &error));
  CHECK(cohort_call_value(call) == size - 1);
  cohort_call_free(call);
}

static void memory(cohort_world* world) {
  float* shared = NULL;
  OK(cohort_buffer_allocate(world, 4096, (void**)&shared, &error));
  const int64_t shape[1] = {1024};
  for (int i = 0; i < 1024; ++i) shared[i] = 1;
  cohort_tensor tensor = tensor_of(shared, shared, COHORT_F32, 1, shape);
  cohort_request request = request_of(COHORT_ALLREDUCE, "shared", &tensor, 1);
  cohort_call* call = NULL;
  OK(cohort_run(world, &request, &call, &error));
  cohort_call_free(call);
  CHECK(shared[1023] == (float)size);
  cohort_buffer_free(world, shared);
}

int main(void) {
  CHECK(cohort_abi_version() == COHORT_ABI_VERSION);
  cohort_job* job = NULL;
  cohort_job* again = NULL;
  OK(cohort_job_join(NULL, &job, &error));
  OK(cohort_job_join(NULL, &again, &error));
  CHECK(job == again);
  cohort_world* world = open_world(job, NULL, 0);
  const cohort_world_info info = info_of(world);
  rank = info.rank;
  size = info.size;
  CHECK(info.local_size * info.cross_size == size && info.local_rank < info.local_size);
  all_reduces(world);
  gathers(world);
  broadcasts(world);
  exchanges(world);
  scatters(world);
  adaptive_sums(world);
  shard_sums(world);
  joins(world);
  memory(world);
  cohort_request barrier = request_of(COHORT_BARRIER, "end", NULL, 0);
  cohort_call* call = NULL;
  OK(cohort_run(world, &barrier, &call, &error));
  cohort_call_free(call);
  cohort_world_close(world);
  EXPECT(COHORT_CLOSED, cohort_run(world, &barrier, &call, &error));
  OK(cohort_job_leave(job, 1, 60000, &error));
  printf("rank %d of %d: all as expected\n", rank, size);
  return 0;
}
