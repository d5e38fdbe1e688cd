/* Cohort's C interface: a process's part in its job, and collectives on named requests, for Python and
 * for every other language. No exceptions cross it, no C++ type is in it, and it needs no LibTorch.
 *
 * What it adds to collective::Group is negotiation: ranks may submit requests in any order and from any
 * thread; a request is carried out when every rank of its process set has submitted one of that name,
 * and all of them are told when the ranks' requests do not match.
 *
 * Versions: cohort_abi_version() is COHORT_ABI_VERSION of the library. A function is never changed, only
 * added; a struct begins with its size, as the caller knows it, and grows at its end only. Fill it with
 * zeros first: zero means the default.
 *
 * Threads: every function may be called from any thread, except where it says otherwise. After fork()
 * the child must call nothing here.
 *
 * Failure: functions return a cohort_status. Where it is neither COHORT_OK nor COHORT_PENDING and `error` is
 * not NULL, *error is a new object that the caller frees. Pointers to strings in it live as long as it.
 */
#ifndef COHORT_C_H
#define COHORT_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COHORT_ABI_VERSION 1

int32_t cohort_abi_version(void);
const char* cohort_version(void); /* "0.1.0" */

typedef enum cohort_status {
  COHORT_OK = 0,
  COHORT_PENDING = 1,  /* the time that a wait may take was over first; the call goes on */
  COHORT_INVALID = 2,  /* arguments or settings are wrong by themselves; nothing was done */
  COHORT_MISMATCH = 3, /* the ranks' requests differ; on every rank; the world goes on */
  COHORT_PEER = 4, /* a peer died or left, or the world was broken: nothing works in it any more */
  COHORT_TIMED_OUT = 5,   /* as COHORT_PEER: a deadline passed, or a request stalled for too long */
  COHORT_AUTH = 6,        /* a peer could not prove that it belongs to the job */
  COHORT_INTERRUPTED = 7, /* the interrupt check said so; the world is broken */
  COHORT_DISMISSED =
      8, /* elastic: the job wants this worker no longer; end the program with success */
  COHORT_CLOSED = 9,   /* the world was closed */
  COHORT_INTERNAL = 10 /* anything else: a bug, or the system refused something */
} cohort_status;

typedef struct cohort_error cohort_error;
cohort_status cohort_error_status(const cohort_error* error);
const char* cohort_error_message(
    const cohort_error* error);                       /* whole: what, who, where, what to do */
int32_t cohort_error_peer(const cohort_error* error); /* its rank in the world; -1: unknown */
void cohort_error_free(cohort_error* error);          /* NULL is fine */

/* ---- Waiting ----------------------------------------------------------------------------------
 * `check` is called about every 50 ms on threads of the caller that wait inside this library (never on the
 * library's own). When it returns non-zero the wait ends with COHORT_INTERRUPTED; a collective that was
 * under way on that thread is broken off, which breaks the world for all its ranks. NULL: none. */
typedef int32_t (*cohort_interrupt_check)(void* user);
void cohort_set_interrupt_check(cohort_interrupt_check check, void* user);

/* ---- The job ----------------------------------------------------------------------------------
 * A process has one part in one job, found in its environment (cluster::discover_role): `cohort run`,
 * TF_CONFIG, torchrun, Horovod's variables, mpirun, srun; with none of them it is alone. */
typedef struct cohort_job cohort_job;

typedef struct cohort_join_options {
  size_t struct_size;
  int64_t timeout_ms; /* for the job's store to appear; 0: 5 minutes */
} cohort_join_options;

/* Joins; a second call returns the same job. COHORT_INVALID for a task that does not train (ps, evaluator). */
cohort_status cohort_job_join(const cohort_join_options* options, cohort_job** job,
                              cohort_error** error);

/* The program is done. With `succeeded` zero the others read that this task was lost. Open worlds are closed
 * first. Returns when the others no longer need what this task hosts. `job` is gone afterwards, and
 * cohort_job_join may be called again (the same process and rank). */
cohort_status cohort_job_leave(cohort_job* job, int32_t succeeded, int64_t timeout_ms,
                               cohort_error** error);

typedef struct cohort_job_info {
  size_t struct_size;
  int32_t rank,
      size;        /* as the launcher counts; elastic: the slot, and the most that there can be */
  int32_t elastic; /* workers come and go */
  int32_t alone;   /* no launcher */
  const char* id;  /* of the job; these live as long as it */
  const char* output; /* the job's output folder, or "" */
  const char* dialect;
  int32_t authenticated; /* its tasks have proved to each other that they belong to it; or alone */
} cohort_job_info;
cohort_status cohort_job_describe(cohort_job* job, cohort_job_info* info, cohort_error** error);

/* ---- The world --------------------------------------------------------------------------------
 * The ranks that work together until it is closed. There is at most one open at a time; opening it
 * again after closing works any number of times, with the same or other ranks.
 * In an elastic job a world is a view of the membership: opening waits for the first or the next view. */
typedef struct cohort_world cohort_world;

typedef struct cohort_world_options {
  size_t struct_size;
  const int32_t*
      ranks; /* of the job, ascending; the world is renumbered; NULL: all. Not elastic. A rank
                           that is not listed gets a world of its own with size 1, as in Horovod. */
  int32_t rank_count;
  int64_t timeout_ms; /* for all to come; 0: 5 minutes */
  int64_t
      fusion_bytes; /* all-reduces are carried out together up to this size; 0: 64 MiB; <0: never */
  int64_t
      cycle_us; /* how long an asynchronous request waits for others to go with; 0: 1000; <0: no time.
                               One that a thread waits for goes at once. */
  double stall_warning_s;  /* a warning names the ranks that are missing; 0: 60; <0, NaN: none */
  double stall_shutdown_s; /* then the world is broken off (COHORT_TIMED_OUT); 0: never */
  int64_t stage;           /* elastic, not the first world: how much this worker has committed */
  const char* why;         /* elastic, not the first world: what broke; NULL: a planned change */
} cohort_world_options;

cohort_status cohort_world_open(cohort_job* job, const cohort_world_options* options,
                                cohort_world** world, cohort_error** error);
/* Requests under way end with COHORT_CLOSED here; peers that still wait for this rank get COHORT_PEER
 * ("left"). Calls (cohort_call) stay valid until they are freed. */
void cohort_world_close(cohort_world* world);

typedef struct cohort_world_info {
  size_t struct_size;
  int32_t rank, size;
  int32_t local_rank, local_size; /* among the ranks of this host */
  int32_t cross_rank, cross_size; /* among the hosts that have a rank of this local rank */
  int32_t homogeneous;            /* every host has as many ranks */
  int64_t view;                   /* elastic: its number, else 0 */
  int32_t newcomer;               /* elastic: this worker has no state; others may */
} cohort_world_info;
cohort_status cohort_world_describe(cohort_world* world, cohort_world_info* info,
                                    cohort_error** error);

/* ---- Process sets -----------------------------------------------------------------------------
 * Set 0 is the world. Every rank of the world calls add and remove with the same ranks, in any order
 * among its other requests; they block until all have. */
cohort_status cohort_set_add(cohort_world* world, const int32_t* ranks, int32_t count, int32_t* id,
                             cohort_error** error);
cohort_status cohort_set_remove(cohort_world* world, int32_t id, cohort_error** error);
/* Writes at most `capacity` ranks; *count is how many there are. COHORT_INVALID: no such set. */
cohort_status cohort_set_ranks(cohort_world* world, int32_t id, int32_t* ranks, int32_t capacity,
                               int32_t* count, cohort_error** error);

/* ---- Requests --------------------------------------------------------------------------------- */
typedef enum cohort_dtype {
  COHORT_U8 = 0,
  COHORT_I8 = 1,
  COHORT_U16 = 2, /* U16, I16, U32, U64, C64, C128: moved, not reduced */
  COHORT_I16 = 3,
  COHORT_I32 = 4,
  COHORT_I64 = 5,
  COHORT_F16 = 6,
  COHORT_F32 = 7,
  COHORT_F64 = 8,
  COHORT_BOOL = 9,
  COHORT_BF16 = 10,
  COHORT_U32 = 11,
  COHORT_U64 = 12,
  COHORT_C64 = 13,
  COHORT_C128 = 14
} cohort_dtype;

typedef enum cohort_op { /* Horovod's numbers */
                         COHORT_AVERAGE = 0,
                         COHORT_SUM = 1,
                         COHORT_ADASUM = 2,
                         COHORT_MIN = 3,
                         COHORT_MAX = 4,
                         COHORT_PRODUCT = 5
} cohort_op;

typedef enum cohort_kind {
  COHORT_ALLREDUCE = 0, /* out: required, as large as in; may be the same memory */
  COHORT_ALLGATHER = 1, /* first dimensions may differ; the result is allocated */
  COHORT_BROADCAST = 2, /* out: required; the root's in is copied to everyone's out */
  COHORT_ALLTOALL = 3, /* `splits` rows to each rank (none: equal parts); the result is allocated */
  COHORT_REDUCESCATTER =
      4, /* first dimension cut over the ranks, the first ones get one more; allocated */
  COHORT_BARRIER = 5,
  COHORT_JOIN =
      6, /* this rank is out of data: until all have joined, it takes part in all-reduces with
                               zeros. Value: the last rank that joined. */
  COHORT_SHARD_SUM =
      7 /* all-reduce over virtual shards (cohort_shard_nodes): the same bits at any number
                               of ranks. f32, f64, f16, bf16. */
} cohort_kind;

typedef struct cohort_tensor {
  const void* in; /* this rank's contribution; SHARD_SUM: see cohort_request.partials */
  void* out;      /* the result's memory where the kind requires it */
  int32_t dtype;  /* cohort_dtype */
  int32_t ndim;
  const int64_t* shape; /* ndim of them, 1024 at most; ndim 0: one element */
} cohort_tensor;

/* Memory for a result whose shape is known only now: tensor `index` of the request. On a thread of the library
 * or a waiting one; must not call back in. NULL: the request fails. */
typedef void* (*cohort_allocate)(void* user, int32_t index, int32_t ndim, const int64_t* shape);
/* The request is over, well or badly (cohort_call_wait returns at once). Once, on any thread; must be short
 * and must not wait for requests. */
typedef void (*cohort_done)(void* user);

typedef struct cohort_request {
  size_t struct_size;
  int32_t kind;
  int32_t set;                /* process set; 0: the world */
  const char* name;           /* required; one request of a name and set at a time a rank, whatever
                                 its kind (barriers have names of their own) */
  int32_t op;                 /* reductions */
  int32_t root;               /* broadcast: a rank of the set (not of the world) */
  double prescale, postscale; /* reductions; both are meant as they are: 1 for none */
  const cohort_tensor*
      tensors; /* several: they are carried out together (Horovod's grouped calls); 1 << 20 at most */
  int32_t tensor_count;
  const int64_t* splits;       /* alltoall */
  int32_t split_count;         /* 0: equal parts */
  int32_t shards;              /* SHARD_SUM: how many in all; 1 << 20 at most */
  const void* const* partials; /* SHARD_SUM, one tensor: the memory of each of this rank's nodes */
  cohort_allocate allocate; /* NULL: the library allocates; the result lives as long as the call */
  cohort_done done;         /* may be NULL */
  void* user;
} cohort_request;

/* One submitted request. Names, shapes and splits are copied; memory of tensors must stay until it is
 * over, also when the call is freed before. */
typedef struct cohort_call cohort_call;

/* COHORT_INVALID, among others, for a name that is under way. Does not wait. */
cohort_status cohort_submit(cohort_world* world, const cohort_request* request, cohort_call** call,
                            cohort_error** error);
int32_t cohort_call_poll(cohort_call* call); /* non-zero: it is over */
/* What the request ended with; COHORT_PENDING when it is under way still. timeout_ms < 0: no limit. */
cohort_status cohort_call_wait(cohort_call* call, int64_t timeout_ms, cohort_error** error);
/* Both in one, the fast way for one blocking call: the thread itself does the work. On failure *call is NULL. */
cohort_status cohort_run(cohort_world* world, const cohort_request* request, cohort_call** call,
                         cohort_error** error);
void cohort_call_free(cohort_call* call);

/* After it ended well. `shape` and library memory live as long as the call. */
cohort_status cohort_call_result(cohort_call* call, int32_t index, cohort_tensor* result,
                                 cohort_error** error);
cohort_status cohort_call_received_splits(cohort_call* call, const int64_t** splits, int32_t* count,
                                          cohort_error** error); /* alltoall */
int64_t cohort_call_value(cohort_call* call);                    /* join */

/* ---- Memory and shards ------------------------------------------------------------------------ */
/* Memory that the other ranks of this host reach: reductions on it copy nothing while the world
 * is open. It stays until it is freed, also when the world is closed before (then as plain memory). */
cohort_status cohort_buffer_allocate(cohort_world* world, size_t bytes, void** memory,
                                     cohort_error** error);
void cohort_buffer_free(cohort_world* world,
                        void* memory); /* also after the close; world: NULL is fine */

/* Which of `shards` virtual shards this rank computes (first, count), and the nodes of the tree that it adds up:
 * node i is the sum, by halves, of shards [first, first + count). Writes at most `capacity`; *count: all. */
typedef struct cohort_shard_node {
  int32_t first, count;
} cohort_shard_node;
cohort_status cohort_shard_nodes(cohort_world* world, int32_t shards, cohort_shard_node* nodes,
                                 int32_t capacity, int32_t* count, cohort_error** error);
/* out[i] = a[i] + b[i] in the accumulation type, as the tree adds. */
cohort_status cohort_shard_add(int32_t dtype, const void* a, const void* b, void* out,
                               int64_t count, cohort_error** error);

/* ---- Timeline --------------------------------------------------------------------------------- */
/* A Chrome trace of this rank's requests: negotiation, waiting, the collective. Perfetto opens it. */
cohort_status cohort_timeline_start(cohort_world* world, const char* path, int32_t mark_cycles,
                                    cohort_error** error);
cohort_status cohort_timeline_stop(cohort_world* world, cohort_error** error);

/* ---- Elastic jobs ----------------------------------------------------------------------------- */
/* A planned change waits for this worker to close its world: its number, or 0. Never blocks. */
uint64_t cohort_elastic_planned_change(cohort_job* job);
/* What `cohort status` shows. */
void cohort_elastic_committed(cohort_job* job, int64_t stage, int64_t step,
                              double samples_per_second);
/* Training is over here. *over non-zero: it is everywhere, end the program; zero: close the world and open the
 * next. */
cohort_status cohort_elastic_finish(cohort_job* job, int64_t stage, int64_t timeout_ms,
                                    int32_t* over, cohort_error** error);

#ifdef __cplusplus
}
#endif

#endif /* COHORT_C_H */
