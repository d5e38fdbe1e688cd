"""Horovod's API for TensorFlow: `import cohort.tensorflow as hvd`.

Collectives are TensorFlow operations that run without Python, in eager execution, in tf.functions and in sessions.
TensorFlow 2.12 or newer. Failures are tf.errors: FailedPreconditionError when the ranks' calls do not match,
InvalidArgumentError for arguments that are wrong by themselves, UnknownError when a peer was lost.
"""

# mypy: ignore-errors
from cohort.tensorflow import elastic  # noqa: F401
from cohort.tensorflow.collectives import (  # noqa: F401
    allreduce, grouped_allreduce, grouped_reducescatter, reducescatter,
)  # fmt: skip
from cohort.tensorflow.compression import Compression  # noqa: F401
from cohort.tensorflow.functions import (  # noqa: F401
    allgather_object, broadcast_object, broadcast_object_fn, broadcast_variables,
)  # fmt: skip
from cohort.tensorflow.gradient_aggregation import LocalGradientAggregationHelper  # noqa: F401
from cohort.tensorflow.gradients import _make_allreduce_grads_fn  # noqa: F401
from cohort.tensorflow.hooks import BroadcastGlobalVariablesHook, broadcast_global_variables  # noqa: F401
from cohort.tensorflow.mpi_ops import (  # noqa: F401
    Adasum, Average, Max, Min, Product, ProcessSet, Sum, _allreduce, _grouped_allreduce, _grouped_reducescatter,
    _reducescatter, add_process_set, allgather, alltoall, broadcast, broadcast_, ccl_built, check_num_rank_power_of_2,
    cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled, grouped_allgather,
    handle_average_backwards_compatibility, init, is_homogeneous, is_initialized, join, local_rank, local_rank_op,
    local_size, local_size_op, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, process_set_included_op, rank,
    rank_op, remove_process_set, rocm_built, shutdown, size, size_op, start_timeline, stop_timeline,
)  # fmt: skip
from cohort.tensorflow.optimizer import DistributedOptimizer  # noqa: F401
from cohort.tensorflow.sync_batch_norm import SyncBatchNormalization  # noqa: F401
from cohort.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape  # noqa: F401
from cohort.tensorflow.util import (  # noqa: F401
    _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs,
)  # fmt: skip
