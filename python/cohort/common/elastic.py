"""Elastic training: a state that is committed, restored and synchronised while workers come and go.

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

    train(hvd.elastic.TorchState(model, optimizer, epoch=0))

Under `cohort run -n LEAST:MOST --elastic`. When a worker is lost the others go back to their last commit and call the
function again; when workers are to come or go they do so after a commit, and nothing is lost. All of them keep their
processes. Rank 0 has the state that the others take over: it is never a newcomer while any worker is left.
"""

from __future__ import annotations

import functools
import queue
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from cohort.common.elastic_job import job
from cohort.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


class HostUpdateResult:
    """What happened to the hosts; may be added up with |."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class WorkerNotificationManager:
    """Tells states of changes that are planned. The job is asked when a state looks for updates; no thread waits."""

    def __init__(self) -> None:
        self._listeners: Set[State] = set()
        self._told = 0

    def init(self) -> None:
        """Nothing has to be started."""

    def register_listener(self, listener: State) -> None:
        self._listeners.add(listener)

    def remove_listener(self, listener: State) -> None:
        self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp: int, update_res: int = HostUpdateResult.mixed) -> None:
        for listener in self._listeners:
            listener.on_hosts_updated(timestamp, update_res)

    def look(self) -> None:
        """Asks the job; each change is told once."""
        change = job.planned_change()
        if change > self._told:
            self._told = change
            self.handle_hosts_updated(change)


notification_manager = WorkerNotificationManager()


class State:
    """What training needs to go on with other workers.

    Args:
        bcast_object: broadcasts an object from rank 0.
        get_rank: returns the rank of this worker.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[Tuple[int, int]] = queue.Queue()
        self._last_updated_timestamp = 0
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Functions to call after every change of the workers: to scale the learning rate with their number, say."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The workers have changed."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: int, update_res: int) -> None:
        """A change is planned; from any thread. The next check_host_updates of all ranks raises, if this is rank 0."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, then lets planned changes happen: see check_host_updates.

        What was done after the last commit is lost with a worker, so commit often; it costs a copy of the state.
        """
        self.save()
        job.committed()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks at once, when rank 0 has heard that workers are to come or go."""
        notification_manager.look()
        previous = last = self._last_updated_timestamp
        result = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > last:
                last = timestamp
                result |= update
        # A newcomer may have heard of other changes than the rest: what rank 0 knows counts.
        previous, self._last_updated_timestamp, result = self._bcast_object((previous, last, result))
        if self._last_updated_timestamp > previous:
            raise HostsUpdatedInterrupt(result == HostUpdateResult.removed)

    def save(self) -> None:
        """Keeps a copy of the state in memory."""
        raise NotImplementedError()

    def restore(self) -> None:
        """Goes back to the last copy."""
        raise NotImplementedError()

    def sync(self) -> None:
        """Takes over the state of rank 0, and keeps a copy."""
        raise NotImplementedError()

    def reset(self) -> None:
        """The workers have changed; before the callbacks, and before `sync`."""


class ObjectState(State):
    """Objects by name, each an attribute. They must be picklable; `restore` puts the same objects back.

    Args:
        bcast_object: broadcasts an object from rank 0.
        get_rank: returns the rank of this worker.
        kwargs: the objects.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        self._saved_state: Dict[str, Any] = kwargs
        self._set_attrs()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self) -> None:
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object({name: getattr(self, name) for name in self._saved_state})
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)


def reset_world() -> None:
    """The `reset` of run_fn that every framework uses."""
    job.change()


def _as_failure(error: Exception) -> Optional[HorovodInternalError]:
    return error if isinstance(error, HorovodInternalError) else None


def run_fn(func: Callable[..., Any], reset: Callable[[], None],
           as_failure: Callable[[Exception], Optional[HorovodInternalError]] = _as_failure) -> Callable[..., Any]:  # fmt: skip
    """`func(state, ...)`, called again after every change of the workers until all of them are done.

    It should begin where the state says. When it returns while a worker is lost or joins, it is called again, and
    then has nothing left to do. `reset` closes the world and opens the next. `as_failure` tells the exceptions that
    mean a failed collective from all others, which end the training.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.init()
        notification_manager.register_listener(state)
        changed = skip_sync = False
        try:
            while True:
                try:
                    if changed:
                        state.on_reset()  # its callbacks may use collectives
                    if not skip_sync:
                        state.sync()
                        if job.is_elastic():
                            job.stage = state._bcast_object(job.stage)
                    result = func(state, *args, **kwargs)
                    if job.finish():
                        return result
                    skip_sync = False
                except HostsUpdatedInterrupt as interrupt:
                    skip_sync = interrupt.skip_sync
                except Exception as error:
                    failure = as_failure(error)
                    if failure is None:
                        raise
                    job.failed(failure)
                    state.restore()
                    skip_sync = False
                reset()
                changed = True
        finally:
            notification_manager.remove_listener(state)

    return wrapper
