"""States of elastic training, and the function that is run again when workers change, in one process without a job."""

import contextlib
import pathlib
import sys
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))

from cohort.common import elastic, elastic_job  # noqa: E402
from cohort.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: E402
from cohort.native import Status  # noqa: E402


class FakeJob(elastic_job.ElasticJob):
    """An elastic job of which the test decides what happens."""

    def __init__(self, change=0, over=(True,)):
        super().__init__()
        self.planned = change
        self.over = list(over)
        self.events = []

    def is_elastic(self):
        return True

    def planned_change(self):
        return self.planned

    def committed(self):
        self.stage += 1
        self._failures = 0

    def finish(self):
        self.events.append("finish")
        return self.over.pop(0)


@contextlib.contextmanager
def job_of(fake):
    manager = elastic.WorkerNotificationManager()
    with mock.patch.object(elastic, "job", fake), mock.patch.object(elastic, "notification_manager", manager):
        yield fake


def make_state(**objects):
    return elastic.ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, **objects)


class ObjectStates(unittest.TestCase):
    def test_restore_goes_back_to_the_last_commit(self):
        with job_of(FakeJob()):
            state = make_state(batch=20, epoch=10)
            state.batch = 21
            state.restore()
            self.assertEqual((state.batch, state.epoch), (20, 10))
            state.batch, state.epoch = 22, 11
            state.commit()
            state.batch = 30
            state.restore()
            self.assertEqual((state.batch, state.epoch), (22, 11))

    def test_sync_takes_over_what_rank_0_has_now(self):
        state = elastic.ObjectState(lambda value: {"batch": 7}, lambda: 1, batch=3)
        state.sync()
        self.assertEqual(state.batch, 7)
        state.batch = 8
        state.restore()
        self.assertEqual(state.batch, 7)
        sent = []
        state = elastic.ObjectState(lambda value: sent.append(value) or value, lambda: 0, batch=3)
        state.batch = 4
        state.sync()
        self.assertEqual(sent, [{"batch": 4}])

    def test_callbacks_run_at_a_reset_and_old_messages_are_forgotten(self):
        with job_of(FakeJob()):
            state, called = make_state(batch=0), []
            state.register_reset_callbacks([lambda: called.append(1)])
            state.register_reset_callbacks([lambda: called.append(2)])
            state.on_hosts_updated(5, elastic.HostUpdateResult.added)
            state.on_reset()
            self.assertEqual(called, [1, 2])
            state.check_host_updates()


class HostUpdates(unittest.TestCase):
    def test_a_message_interrupts_once_and_says_whether_to_synchronise(self):
        update = elastic.HostUpdateResult
        for updates, skip_sync in (([update.removed], True), ([update.added], False),
                                   ([update.removed, update.added], False)):  # fmt: skip
            with self.subTest(updates=updates), job_of(FakeJob()):
                state = make_state(batch=0)
                for at, result in enumerate(updates, 1):
                    state.on_hosts_updated(at, result)
                with self.assertRaises(HostsUpdatedInterrupt) as caught:
                    state.commit()
                self.assertEqual(caught.exception.skip_sync, skip_sync)
                state.commit()

    def test_what_rank_0_has_heard_counts(self):
        with job_of(FakeJob()):
            heard = elastic.ObjectState(lambda value: (3, 3, 0), lambda: 1, batch=0)
            heard.on_hosts_updated(4, elastic.HostUpdateResult.added)
            heard.check_host_updates()
            not_heard = elastic.ObjectState(lambda value: (3, 4, 2), lambda: 1, batch=0)
            with self.assertRaises(HostsUpdatedInterrupt):
                not_heard.check_host_updates()

    def test_a_planned_change_of_the_job_is_told_once(self):
        with job_of(FakeJob(change=2)):
            state = make_state(batch=0)
            elastic.notification_manager.register_listener(state)
            with self.assertRaises(HostsUpdatedInterrupt):
                state.commit()
            state.commit()

    def test_the_state_is_saved_before_the_interrupt(self):
        with job_of(FakeJob(change=2)):
            state = make_state(batch=0)
            elastic.notification_manager.register_listener(state)
            state.batch = 5
            with self.assertRaises(HostsUpdatedInterrupt):
                state.commit()
            state.batch = 6
            state.restore()
            self.assertEqual(state.batch, 5)


class Running(unittest.TestCase):
    def run_steps(self, fake, steps, **objects):
        """What happened, in order, while `steps` (exceptions, or what the function returns) happened one by one."""
        events, steps = fake.events, list(steps)

        class Recorder(elastic.ObjectState):
            def sync(self):
                events.append("sync")

            def restore(self):
                events.append("restore")

            def on_reset(self):
                events.append("on_reset")

        def train(state, word, *, number):
            self.assertEqual((word, number), ("word", 5))
            step = steps.pop(0)
            events.append("run")
            if isinstance(step, BaseException):
                raise step
            return step

        state = Recorder(lambda value: value, lambda: 0, **objects)
        with job_of(fake):
            result = elastic.run_fn(train, lambda: events.append("reset"))(state, "word", number=5)
        self.assertEqual(steps, [])
        return result

    def test_a_function_that_returns_is_run_once(self):
        fake = FakeJob()
        self.assertEqual(self.run_steps(fake, ["result"]), "result")
        self.assertEqual(fake.events, ["sync", "run", "finish"])

    def test_after_a_lost_peer_the_state_is_restored_and_synchronised(self):
        fake = FakeJob()
        self.run_steps(fake, [HorovodInternalError("gone"), "result"])
        self.assertEqual(fake.events, ["sync", "run", "restore", "reset", "on_reset", "sync", "run", "finish"])

    def test_after_a_planned_change_nothing_is_restored(self):
        for skip_sync in (False, True):
            fake = FakeJob()
            self.run_steps(fake, [HostsUpdatedInterrupt(skip_sync), "result"])
            sync = [] if skip_sync else ["sync"]
            self.assertEqual(fake.events, ["sync", "run", "reset", "on_reset", *sync, "run", "finish"])

    def test_a_change_at_the_end_runs_the_function_again(self):
        fake = FakeJob(over=[False, True])
        self.assertEqual(self.run_steps(fake, ["first", "second"]), "second")
        self.assertEqual(fake.events, ["sync", "run", "finish", "reset", "on_reset", "sync", "run", "finish"])

    def test_a_callback_that_loses_a_peer_is_called_again(self):
        fake, failures = FakeJob(), [HorovodInternalError("gone")]
        state = make_state(batch=0)

        def callback():
            fake.events.append("callback")
            if failures:
                raise failures.pop()

        state.register_reset_callbacks([callback])
        steps = [HostsUpdatedInterrupt(), "result"]

        def train(state):
            step = steps.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step

        with job_of(fake):
            self.assertEqual(elastic.run_fn(train, lambda: fake.events.append("reset"))(state), "result")
        self.assertEqual(fake.events, ["reset", "callback", "reset", "callback", "finish"])

    def test_frameworks_have_failures_of_their_own(self):
        fake, steps = FakeJob(), [OSError("lost"), "result"]

        def train(state):
            step = steps.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step

        def as_failure(error):
            return HorovodInternalError(str(error)) if isinstance(error, OSError) else None

        with job_of(fake):
            run = elastic.run_fn(train, lambda: fake.events.append("reset"), as_failure)
            self.assertEqual(run(make_state(batch=0)), "result")
        self.assertEqual(fake.events, ["reset", "finish"])

    def test_other_exceptions_leave_the_function(self):
        with self.assertRaises(KeyError):
            self.run_steps(FakeJob(), [KeyError("mine")])

    def test_ranks_that_differ_again_and_again_end_the_training(self):
        differs = [HorovodInternalError("shapes differ", status=Status.MISMATCH) for _ in range(3)]
        with self.assertRaisesRegex(HorovodInternalError, "shapes differ"):
            self.run_steps(FakeJob(), differs)
        lost = [HorovodInternalError("gone", status=Status.PEER) for _ in range(20)]
        self.assertEqual(self.run_steps(FakeJob(), [*lost, "result"]), "result")

    def test_a_job_that_is_not_elastic_raises_what_failed(self):
        job = elastic_job.ElasticJob()
        job.failed(HorovodInternalError("rank 1 died"))
        with self.assertRaisesRegex(HorovodInternalError, "rank 1 died"):
            job.change()
        self.assertEqual(job.planned_change(), 0)
        self.assertTrue(job.finish())


if __name__ == "__main__":
    unittest.main()
