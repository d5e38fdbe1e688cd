"""What an elastic job and one of its workers tell each other: planned changes, progress, the end of training.

In a job that is not elastic nothing ever changes, and training is over when it is over here.
"""

from __future__ import annotations

import ctypes
from typing import Optional

from cohort import native
from cohort.common import basics
from cohort.common.exceptions import HorovodInternalError

# A worker that is done waits this long for the others, which may still evaluate. One that is lost ends the wait.
_FINISH_MS = 24 * 60 * 60 * 1000
_FAILURES_IN_A_ROW = 3
_NOT_OF_MEMBERS = (native.Status.MISMATCH, native.Status.INTERNAL)


class ElasticJob:
    """One a process. `stage` is how often this worker has committed; a newcomer takes over the others' number.

    Confined to the thread that trains, `planned_change` aside.
    """

    def __init__(self) -> None:
        self.stage = 0
        self._error: Optional[HorovodInternalError] = None
        self._failures = 0  # in a row, without a commit, that no other set of workers would end

    def is_elastic(self) -> bool:
        return basics.is_initialized() and basics.job_info().elastic

    def planned_change(self) -> int:
        """Workers are to come or go once this one is between two steps: the number of the change, or 0."""
        return int(native.library().cohort_elastic_planned_change(basics.job())) if self.is_elastic() else 0

    def committed(self) -> None:
        self.stage += 1
        self._failures = 0
        if self.is_elastic():
            native.library().cohort_elastic_committed(basics.job(), self.stage, self.stage, 0.0)

    def failed(self, error: HorovodInternalError) -> None:
        """A collective failed; `change` follows. Raises it again when that has happened too often."""
        self._error = error
        self._failures += 1 if error.status in _NOT_OF_MEMBERS else 0
        if self._failures >= _FAILURES_IN_A_ROW:
            raise error

    def change(self) -> None:
        """Closes the world and opens the next one. After a failure in a job that is not elastic: raises it again."""
        error, self._error = self._error, None
        if not self.is_elastic():
            if error is not None:
                raise error
            basics.shutdown()
            basics.init()
            return
        basics.shutdown()
        basics.open_world(stage=self.stage, why=None if error is None else str(error))

    def finish(self) -> bool:
        """Training is over here. True: everywhere. False: `change` has to follow, and the training function again."""
        if not self.is_elastic():
            return True
        over = ctypes.c_int32()
        native.call("cohort_elastic_finish", basics.job(), self.stage, _FINISH_MS, ctypes.byref(over))
        return bool(over.value)


job = ElasticJob()
