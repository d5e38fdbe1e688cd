/* What the C programs of these tests share: a failed check ends the program with its place. */
#ifndef COHORT_TESTS_CAPI_CHECK_H
#define COHORT_TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cohort/capi/cohort_c.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

/* The call returns `status`; with another one its error is shown. */
#define EXPECT(status, call)                                                          \
  do {                                                                                \
    cohort_error* error = NULL;                                                       \
    const cohort_status got = (call);                                                 \
    if (got != (status)) {                                                            \
      fprintf(stderr, "%s:%d: status %d, not %d: %s\n", __FILE__, __LINE__, (int)got, \
              (int)(status), cohort_error_message(error));                            \
      exit(1);                                                                        \
    }                                                                                 \
    cohort_error_free(error);                                                         \
  } while (0)

#define OK(call) EXPECT(COHORT_OK, call)

/* As EXPECT, and the message has these words. */
#define EXPECT_WORDS(status, words, call)                                                    \
  do {                                                                                       \
    cohort_error* error = NULL;                                                              \
    const cohort_status got = (call);                                                        \
    if (got != (status) || strstr(cohort_error_message(error), words) == NULL) {             \
      fprintf(stderr, "%s:%d: status %d, not %d, or without '%s': %s\n", __FILE__, __LINE__, \
              (int)got, (int)(status), words, cohort_error_message(error));                  \
      exit(1);                                                                               \
    }                                                                                        \
    cohort_error_free(error);                                                                \
  } while (0)

static inline cohort_request request_of(cohort_kind kind, const char* name,
                                        const cohort_tensor* tensors, int32_t count) {
  cohort_request request;
  memset(&request, 0, sizeof request);
  request.struct_size = sizeof request;
  request.kind = kind;
  request.name = name;
  request.op = COHORT_SUM;
  request.prescale = request.postscale = 1;
  request.tensors = tensors;
  request.tensor_count = count;
  return request;
}

static inline cohort_tensor tensor_of(const void* in, void* out, cohort_dtype dtype, int32_t ndim,
                                      const int64_t* shape) {
  cohort_tensor tensor = {in, out, dtype, ndim, shape};
  return tensor;
}

static inline cohort_world* open_world(cohort_job* job, const int32_t* ranks, int32_t count) {
  cohort_world_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.ranks = ranks;
  options.rank_count = count;
  options.timeout_ms = 60000;
  cohort_world* world = NULL;
  OK(cohort_world_open(job, &options, &world, &error));
  return world;
}

static inline cohort_world_info info_of(cohort_world* world) {
  cohort_world_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  OK(cohort_world_describe(world, &info, &error));
  return info;
}

#endif
