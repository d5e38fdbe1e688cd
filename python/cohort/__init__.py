"""Cohort for Python: the ranks of a training job and what they exchange, and jobs from outside.

Inside a job: `init`, `rank`, `size`, collectives on numpy arrays, objects; `cohort.torch`, `cohort.tensorflow` and
`cohort.keras` have the same for their tensors. From outside: `cohort.estimator` has the estimators, `cohort.Client`
is the HTTP API, one method an endpoint.

Everything is loaded when it is first used: `import cohort` imports no numpy, no framework and no library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from cohort.client import Client as Client
    from cohort.common.arrays import (
        allgather as allgather, allgather_async as allgather_async, allreduce as allreduce, allreduce_ as allreduce_,
        allreduce_async as allreduce_async, allreduce_async_ as allreduce_async_, alltoall as alltoall,
        alltoall_async as alltoall_async, broadcast as broadcast, broadcast_ as broadcast_,
        broadcast_async as broadcast_async, broadcast_async_ as broadcast_async_,
        grouped_allgather as grouped_allgather, grouped_allgather_async as grouped_allgather_async,
        grouped_allreduce as grouped_allreduce, grouped_allreduce_async as grouped_allreduce_async,
        grouped_reducescatter as grouped_reducescatter, grouped_reducescatter_async as grouped_reducescatter_async,
        poll as poll, reducescatter as reducescatter, reducescatter_async as reducescatter_async,
        synchronize as synchronize,
    )  # fmt: skip
    from cohort.common.basics import (
        Adasum as Adasum, Average as Average, Max as Max, Min as Min, Product as Product, Sum as Sum,
        ccl_built as ccl_built, cross_rank as cross_rank, cross_size as cross_size, cuda_built as cuda_built,
        ddl_built as ddl_built, gloo_built as gloo_built, gloo_enabled as gloo_enabled, init as init,
        is_homogeneous as is_homogeneous, is_initialized as is_initialized, local_rank as local_rank,
        local_size as local_size, mpi_built as mpi_built, mpi_enabled as mpi_enabled,
        mpi_threads_supported as mpi_threads_supported, nccl_built as nccl_built, rank as rank,
        rocm_built as rocm_built, shutdown as shutdown, size as size, start_timeline as start_timeline,
        stop_timeline as stop_timeline,
    )  # fmt: skip
    from cohort.common.exceptions import (
        HorovodInternalError as HorovodInternalError, HostsUpdatedInterrupt as HostsUpdatedInterrupt,
    )  # fmt: skip
    from cohort.common.objects import (
        allgather_object as allgather_object, barrier as barrier, broadcast_object as broadcast_object, join as join,
    )  # fmt: skip
    from cohort.common.process_sets import (
        ProcessSet as ProcessSet, add_process_set as add_process_set, global_process_set as global_process_set,
        remove_process_set as remove_process_set,
    )  # fmt: skip
    from cohort.errors import (
        CohortError as CohortError, JobFailed as JobFailed, JobStopped as JobStopped, ServiceError as ServiceError,
        ServiceUnavailable as ServiceUnavailable, SourceError as SourceError,
    )  # fmt: skip
    from cohort.job import Job as Job
    from cohort.runner.function import run as run

__version__ = "0.1.0"

_MODULES: Dict[str, str] = {
    "client": "Client",
    "common.arrays": "allgather allgather_async allreduce allreduce_ allreduce_async allreduce_async_ alltoall "
                     "alltoall_async broadcast broadcast_ broadcast_async broadcast_async_ grouped_allgather "
                     "grouped_allgather_async grouped_allreduce grouped_allreduce_async grouped_reducescatter "
                     "grouped_reducescatter_async poll reducescatter reducescatter_async synchronize",
    "common.basics": "Adasum Average Max Min Product Sum ccl_built cross_rank cross_size cuda_built ddl_built "
                     "gloo_built gloo_enabled init is_homogeneous is_initialized local_rank local_size mpi_built "
                     "mpi_enabled mpi_threads_supported nccl_built rank rocm_built shutdown size start_timeline "
                     "stop_timeline",
    "common.exceptions": "HorovodInternalError HostsUpdatedInterrupt",
    "common.objects": "allgather_object barrier broadcast_object join",
    "common.process_sets": "ProcessSet add_process_set global_process_set remove_process_set",
    "errors": "CohortError JobFailed JobStopped ServiceError ServiceUnavailable SourceError",
    "job": "Job",
    "runner.function": "run",
}  # fmt: skip
_MODULE_OF = {name: f"cohort.{module}" for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = ("client", "errors", "job")  # attributes without an import of their own

__all__ = [*_MODULE_OF, "attach"]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"cohort.{name}")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'cohort' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})


def attach(job: str, *, client: Optional[Client] = None) -> Job:
    """A job that was submitted before, by id, its beginning, or name."""
    from cohort.client import Client
    from cohort.job import Job

    client = client or Client()
    return Job(client, client.job(job)["id"])
