"""Cohort for Python: submit training jobs, follow them, fetch what they leave.

`cohort.estimator` has the estimators; `cohort.Client` is the HTTP API, one method an endpoint.
"""

from __future__ import annotations

from typing import Optional

from cohort.client import Client
from cohort.errors import CohortError, JobFailed, JobStopped, ServiceError, ServiceUnavailable, SourceError
from cohort.job import Job

__version__ = "0.1.0"
__all__ = ["Client", "CohortError", "Job", "JobFailed", "JobStopped", "ServiceError", "ServiceUnavailable",
           "SourceError", "attach"]  # fmt: skip


def attach(job: str, *, client: Optional[Client] = None) -> Job:
    """A job that was submitted before, by id, its beginning, or name."""
    client = client or Client()
    return Job(client, client.job(job)["id"])
