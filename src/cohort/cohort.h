#pragma once

// Everything that a program which trains with Cohort includes and links (Cohort::cohort).
// LibTorch-free programs include what they need from base, cluster and collective instead.

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/parallel/broadcast_state.h"
#include "cohort/parallel/buffer_sync.h"
#include "cohort/parallel/context.h"
#include "cohort/parallel/distributed_optimizer.h"
#include "cohort/parallel/flags.h"
#include "cohort/parallel/gradient_sync.h"
#include "cohort/parallel/ops.h"
#include "cohort/parallel/random_scope.h"
#include "cohort/parallel/strategy.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/distributed_sampler.h"
#include "cohort/train/data/image_dataset.h"

namespace cohort {

using parallel::all_gather;
using parallel::all_reduce;
using parallel::all_reduce_;
using parallel::all_reduce_async;
using parallel::all_reduce_async_;
using parallel::all_to_all;
using parallel::average_metrics;
using parallel::barrier;
using parallel::broadcast;
using parallel::broadcast_;
using parallel::broadcast_json;
using parallel::broadcast_object;
using parallel::broadcast_optimizer_state;
using parallel::broadcast_parameters;
using parallel::Compression;
using parallel::DistributedOptimizer;
using parallel::grouped_all_reduce;
using parallel::grouped_all_reduce_;
using parallel::NamedTensors;
using parallel::reduce_scatter;
using parallel::ReduceOp;
using parallel::Replica;
using parallel::Strategy;

}  // namespace cohort
