"""Objects are pickles, which can run code: ranks of a job without a secret do not exchange them; arrays they do."""

import json
import socket
import sys
import tempfile
import unittest

import jobs
from needed_packages import need

need("numpy")
PROGRAM = """
import numpy as np
import cohort
cohort.init()
assert cohort.allreduce(np.ones(2), op=cohort.Sum).tolist() == [2, 2]
for call in (lambda: cohort.broadcast_object("x"), lambda: cohort.allgather_object("x")):
    try:
        call()
        print("exchanged")
    except ValueError as error:
        print("refused:", error)
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Secret(unittest.TestCase):
    def run_by_hand(self, **more):
        """Two terminals with TF_CONFIG."""
        workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        ranks = []
        for index in range(2):
            config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            env = jobs.environment(TF_CONFIG=json.dumps(config), **more)
            ranks.append(jobs.start([sys.executable, "-c", PROGRAM], env=env))
        ended = [jobs.finish(rank) for rank in ranks]
        self.assertEqual([status for status, _ in ended], [0, 0], ended)
        return [output for _, output in ended]

    def test_without_one_objects_are_refused_with_what_to_do(self):
        for output in self.run_by_hand():
            self.assertEqual(output.count("refused: "), 2, output)
            self.assertIn("COHORT_SECRET_FILE", output)

    def test_with_one_they_are_exchanged(self):
        with tempfile.NamedTemporaryFile(prefix="cohort-secret-") as file:  # mode 0600
            file.write(("5e" * 32).encode())
            file.flush()
            for output in self.run_by_hand(COHORT_SECRET_FILE=file.name):
                self.assertEqual(output.count("exchanged"), 2, output)


if __name__ == "__main__":
    unittest.main()
