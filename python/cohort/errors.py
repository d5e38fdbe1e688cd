"""What goes wrong, as exceptions. All of them are `CohortError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    from cohort.job import Job


class CohortError(Exception):
    """Base class of the exceptions of this package."""


class ServiceUnavailable(CohortError):
    """No service answers, and none could be started."""


class ServiceError(CohortError):
    """The service refused a request; the text is its reason, and what to do about it."""

    def __init__(self, status: int, message: str, advice: Optional[str] = None) -> None:
        super().__init__(message if not advice else f"{message.rstrip('.')}. {advice}")
        self.status = status
        self.message = message
        self.advice = advice

    def __reduce__(self) -> Tuple[Any, ...]:  # it may come from a process of a pool
        return type(self), (self.status, self.message, self.advice)


class SourceError(CohortError):
    """A source folder cannot be packed."""


class JobFailed(CohortError):
    """The job did not succeed; the text is the root cause."""

    def __init__(self, job: Job, reason: str, exit_code: Optional[int]) -> None:
        super().__init__(reason)
        self.job = job
        self.exit_code = exit_code

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.job, str(self), self.exit_code)


class JobStopped(JobFailed):
    """The job was stopped before it was done."""
