"""Horovod's API for PyTorch: `import cohort.torch as hvd`, and what only Cohort has (DistributedDataParallel)."""

from __future__ import annotations

from cohort.torch import elastic
from cohort.torch.compression import Compression
from cohort.torch.distributed import DistributedDataParallel
from cohort.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from cohort.torch.mpi_ops import (
    Adasum, Average, HorovodInternalError, Max, Min, ProcessSet, Product, Sum, add_process_set, allgather,
    allgather_async, allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall, alltoall_async, barrier,
    broadcast, broadcast_, broadcast_async, broadcast_async_, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
    global_process_set, gloo_built, gloo_enabled, grouped_allgather, grouped_allgather_async, grouped_allreduce,
    grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter,
    grouped_reducescatter_async, init, is_homogeneous, is_initialized, join, local_rank, local_size, mpi_built,
    mpi_enabled, mpi_threads_supported, nccl_built, poll, rank, reducescatter, reducescatter_async, remove_process_set,
    rocm_built, shutdown, size, sparse_allreduce_async, start_timeline, stop_timeline, synchronize,
)  # fmt: skip
from cohort.torch.optimizer import DistributedOptimizer
from cohort.torch.sharded_sampler import ShardedSampler
from cohort.torch.sync_batch_norm import SyncBatchNorm
