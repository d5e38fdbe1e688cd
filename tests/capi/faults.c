/* What goes wrong, one subject a run: faults SUBJECT. Run by `cohort run -n N`. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <unistd.h>

#include "check.h"

static int rank, size;

static void rest(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

static cohort_status sum(cohort_world* world, const char* name, float* value,
                         cohort_error** error) {
  cohort_tensor tensor = tensor_of(value, value, COHORT_F32, 0, NULL);
  cohort_request request = request_of(COHORT_ALLREDUCE, name, &tensor, 1);
  cohort_call* call = NULL;
  const cohort_status status = cohort_run(world, &request, &call, error);
  cohort_call_free(call);
  return status;
}

static void expect_working(cohort_world* world) {
  float value = 1;
  OK(sum(world, "still works", &value, &error));
  CHECK(value == (float)size);
}

/* Ranks whose requests differ: an error on all that names both sides, and the world goes on. */
static void mismatches(cohort_world* world) {
  float values[8] = {0};
  const int64_t shape[1] = {rank == 0 ? 3 : 4}, equal[1] = {2};
  cohort_tensor tensor = tensor_of(values, values, COHORT_F32, 1, shape);
  cohort_request request = request_of(COHORT_ALLREDUCE, "shape", &tensor, 1);
  cohort_call* call = NULL;
  EXPECT_WORDS(COHORT_MISMATCH, "rank 0: allreduce (sum) of f32[3]",
               cohort_run(world, &request, &call, &error));
  expect_working(world);
  EXPECT_WORDS(COHORT_MISMATCH, "allreduce (sum) of f32[4]",
               cohort_run(world, &request, &call, &error));
  expect_working(world);
  tensor = tensor_of(values, values, rank == 0 ? COHORT_F32 : COHORT_I32, 1, equal);
  request.name = "type";
  EXPECT_WORDS(COHORT_MISMATCH, "the data types", cohort_run(world, &request, &call, &error));
  expect_working(world);
  tensor.dtype = COHORT_F32;
  request.name = "operation";
  request.op = rank == 0 ? COHORT_SUM : COHORT_MAX;
  EXPECT_WORDS(COHORT_MISMATCH, "the operations", cohort_run(world, &request, &call, &error));
  expect_working(world);
  request.kind = COHORT_BROADCAST;
  request.name = "root";
  request.root = rank == 0 ? 0 : 1;
  EXPECT_WORDS(COHORT_MISMATCH, "from root rank 1", cohort_run(world, &request, &call, &error));
  expect_working(world);
  request = request_of(rank == 0 ? COHORT_ALLREDUCE : COHORT_ALLGATHER, "kind", &tensor, 1);
  EXPECT_WORDS(COHORT_MISMATCH, "allgather of f32[2]", cohort_run(world, &request, &call, &error));
  expect_working(world);
  CHECK(call == NULL);
}

/* 50 requests at once, in an order of each rank's own; twice the same name is refused. */
static void orders(cohort_world* world) {
  enum { kCount = 50 };
  float values[kCount];
  char names[kCount][16];
  cohort_call* calls[kCount];
  for (int i = 0; i < kCount; ++i) {
    const int t = rank % 2 == 0 ? i : kCount - 1 - i;
    values[t] = (float)t;
    snprintf(names[t], sizeof names[t], "t%d", t);
    cohort_tensor tensor = tensor_of(&values[t], &values[t], COHORT_F32, 0, NULL);
    cohort_request request = request_of(COHORT_ALLREDUCE, names[t], &tensor, 1);
    OK(cohort_submit(world, &request, &calls[t], &error));
  }
  for (int i = 0; i < kCount; ++i) {
    if (i % 3 == 0)
      while (!cohort_call_poll(calls[i])) rest(1);
    OK(cohort_call_wait(calls[i], i % 2 == 0 ? -1 : 60000, &error));
    cohort_call_free(calls[i]);
    CHECK(values[i] == (float)(size * i));
  }
  if (rank == 0) {
    float a = 1, b = 1;
    cohort_tensor tensor = tensor_of(&a, &a, COHORT_F32, 0, NULL);
    cohort_request request = request_of(COHORT_ALLREDUCE, "once", &tensor, 1);
    cohort_call* call = NULL;
    OK(cohort_submit(world, &request, &call, &error));
    EXPECT_WORDS(COHORT_INVALID, "already", sum(world, "once", &b, &error));
    EXPECT(COHORT_PENDING, cohort_call_wait(call, 20, &error));
    expect_working(world);
    OK(cohort_call_wait(call, -1, &error));
    cohort_call_free(call);
  } else {
    float a = 1;
    expect_working(world);
    OK(sum(world, "once", &a, &error));
  }
}

/* Opened and closed again and again, with all ranks and with some. */
static void reopen(cohort_job* job, cohort_world* world) {
  cohort_world* second = NULL;
  EXPECT(COHORT_INVALID, cohort_world_open(job, NULL, &second, &error));
  cohort_world_close(world);
  for (int i = 0; i < 20; ++i) {
    const int32_t ranks[2] = {0, size - 1};
    world = i % 4 == 3 ? open_world(job, ranks, 2) : open_world(job, NULL, 0);
    const cohort_world_info info = info_of(world);
    const int in_it = i % 4 != 3 || rank == 0 || rank == size - 1;
    CHECK(info.size == (i % 4 != 3 ? size : in_it ? 2 : 1));
    float value = 1;
    OK(sum(world, "x", &value, &error));
    CHECK(value == (float)info.size);
    cohort_world_close(world);
  }
}

/* Rank 1 ends inside: the others learn who, at once and in every later call. */
static void death(cohort_world* world) {
  expect_working(world);
  if (rank == 1) {
    rest(50);
    _exit(0);
  }
  float value = 1;
  cohort_error* error = NULL;
  CHECK(sum(world, "x", &value, &error) == COHORT_PEER);
  CHECK(cohort_error_peer(error) == 1 || size > 2);
  CHECK(strstr(cohort_error_message(error), "worker/1") != NULL);
  fprintf(stderr, "told: %s\n", cohort_error_message(error));
  cohort_error_free(error);
  EXPECT(COHORT_PEER, sum(world, "y", &value, &error));
}

/* Rank 0 closes with a request under way. */
static void closing(cohort_world* world) {
  expect_working(world);
  float value = 1;
  if (rank != 0) {
    EXPECT(COHORT_PEER, sum(world, "x", &value, &error));
    return;
  }
  cohort_tensor tensor = tensor_of(&value, &value, COHORT_F32, 0, NULL);
  cohort_request request = request_of(COHORT_ALLREDUCE, "y", &tensor, 1);
  cohort_call* call = NULL;
  OK(cohort_submit(world, &request, &call, &error));
  rest(20);
  cohort_world_close(world);
  EXPECT(COHORT_CLOSED, cohort_call_wait(call, -1, &error));
  cohort_call_free(call);
}

static int32_t say_stop(void* user) {
  ++*(int*)user;
  return *(int*)user == 3;
}

/* Rank 0 is interrupted in its third look, while rank 1 does not come. */
static void interrupts(cohort_world* world) {
  expect_working(world);
  float value = 1;
  if (rank == 0) {
    int looks = 0;
    cohort_set_interrupt_check(say_stop, &looks);
    EXPECT(COHORT_INTERRUPTED, sum(world, "x", &value, &error));
    CHECK(looks == 3);
    cohort_set_interrupt_check(NULL, NULL);
  } else {
    rest(400);
  }
  EXPECT(COHORT_PEER, sum(world, "x", &value, &error));
}

/* The last rank comes late into a round; then rank 0 submits late what all others wait for. */
static void stalls(cohort_world* world) {
  float value = 1;
  if (rank == size - 1) rest(900);
  OK(sum(world, "late", &value, &error));
}

static void worlds_of_elastic_job(cohort_job* job) {
  cohort_world* world = open_world(job, NULL, 0);
  const cohort_world_info info = info_of(world);
  rank = info.rank;
  size = info.size;
  CHECK(info.view > 0);
  for (int step = 0; step < 3; ++step) {
    expect_working(world);
    cohort_elastic_committed(job, step + 1, step + 1, 1);
  }
  CHECK(cohort_elastic_planned_change(job) == 0);
  int32_t over = 0;
  OK(cohort_elastic_finish(job, 3, 60000, &over, &error));
  CHECK(over);
  cohort_world_close(world);
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  const char* subject = argv[1];
  cohort_job* job = NULL;
  OK(cohort_job_join(NULL, &job, &error));
  if (strcmp(subject, "elastic") == 0) {
    worlds_of_elastic_job(job);
    OK(cohort_job_leave(job, 1, 60000, &error));
    return 0;
  }
  cohort_world_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (strcmp(subject, "stalls") == 0) options.stall_warning_s = 0.3;
  cohort_world* world = NULL;
  OK(cohort_world_open(job, &options, &world, &error));
  const cohort_world_info info = info_of(world);
  rank = info.rank;
  size = info.size;
  if (strcmp(subject, "mismatches") == 0) mismatches(world);
  else if (strcmp(subject, "orders") == 0) orders(world);
  else if (strcmp(subject, "reopen") == 0) reopen(job, world);
  else if (strcmp(subject, "death") == 0) death(world);
  else if (strcmp(subject, "closing") == 0) closing(world);
  else if (strcmp(subject, "interrupts") == 0) interrupts(world);
  else if (strcmp(subject, "stalls") == 0) stalls(world);
  else CHECK(!"a known subject");
  cohort_world_close(world);
  if (strcmp(subject, "death") == 0) return 0; /* the job is lost */
  if (strcmp(subject, "reopen") == 0) { /* leave and come again */
    OK(cohort_job_leave(job, 1, 60000, &error));
    EXPECT(COHORT_CLOSED, cohort_world_open(job, NULL, &world, &error));
    OK(cohort_job_join(NULL, &job, &error));
    world = open_world(job, NULL, 0);
    expect_working(world);
  }
  OK(cohort_job_leave(job, 1, 60000, &error));
  printf("rank %d of %d: all as expected\n", rank, size);
  return 0;
}
