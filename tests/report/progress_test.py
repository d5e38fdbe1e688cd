"""The progress line where people see it: on a terminal, in a file, under `cohort run`.

usage: progress_test.py PROGRAM
"""

import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

PROGRAM = sys.argv.pop(1)
COHORT = os.path.join(os.environ["COHORT_BIN_DIR"], "cohort")
COLUMNS = 100
PATIENCE = 60


def render(data):
    """The lines that a person sees on a terminal at the end, and every last line shown on the way."""
    screen, cursor, seen = [""], 0, []
    for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\s\S]", data.decode()):
        if token == "\n":
            screen.append("")
        elif token == "\r":
            seen.append(screen[-1])
            cursor = 0
        elif token == "\x1b[K":
            screen[-1] = screen[-1][:cursor]
        elif len(token) == 1:
            assert cursor < COLUMNS, "the line wraps: " + screen[-1]
            screen[-1] = screen[-1][:cursor].ljust(cursor) + token + screen[-1][cursor + 1:]
            cursor += 1
    return screen, seen


class ProgressLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        self.environment["TERM"] = "xterm"

    def on_terminal(self, *command):
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, COLUMNS, 0, 0))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                                   env=self.environment, cwd=self.folder)
        os.close(terminal)
        data, limit = b"", time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            try:
                data += os.read(controller, 65536)
            except OSError:  # the last writer has left
                break
        os.close(controller)
        self.assertEqual(process.wait(timeout=PATIENCE), 0, data)
        return render(data)

    def test_on_a_terminal_one_line_lives_and_leaves(self):
        screen, seen = self.on_terminal(PROGRAM, "progress")
        self.assertEqual(screen, ["epoch 1 is done", "epoch 2 is done",
                                  "total   0:02, 20 samples, 10.0 samples/s, 1 worker", "weights f00d", ""])
        states = {line for line in seen if "2 workers" in line}
        self.assertGreater(len(states), 10, seen)
        self.assertRegex(sorted(states)[0], r"^epoch 1/2 \[#*-*\] \d+/10  2 workers$")

    def test_in_a_file_lines_are_plain(self):
        done = subprocess.run([PROGRAM, "progress"], capture_output=True, env=self.environment,
                              timeout=PATIENCE, check=True)
        self.assertNotIn(b"\r", done.stdout)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "epoch 1/2 1/10  2 workers")
        self.assertIn("epoch 1 is done", lines)
        self.assertEqual(lines[-1], "weights f00d")

    def test_under_the_launcher_on_a_terminal_the_line_of_rank_0_lives(self):
        screen, seen = self.on_terminal(COHORT, "run", "-n", "2", "--output", str(self.folder / "out"), "--",
                                        PROGRAM, "progress")
        task = f"{os.uname().nodename}:worker/0 "
        self.assertEqual([line.removeprefix(task) for line in screen if line.startswith(task)],
                         ["epoch 1 is done", "epoch 2 is done",
                          "total   0:02, 20 samples, 10.0 samples/s, 1 worker", "weights f00d"])
        self.assertRegex(screen[-2], "^cohort: job .* succeeded")
        states = {line for line in seen if line.startswith(task + "epoch") and "2 workers" in line}
        self.assertGreaterEqual(len(states), 3, seen)
        self.assertFalse([line for line in screen if "2 workers" in line and not line.startswith("cohort:")])

    def test_under_the_launcher_in_a_file_lines_are_plain(self):
        done = subprocess.run([COHORT, "run", "-n", "2", "--output", str(self.folder / "out"), "--",
                               PROGRAM, "progress"], capture_output=True, env=self.environment,
                              timeout=PATIENCE, check=True)
        self.assertNotIn(b"\r", done.stdout)
        self.assertNotIn(b"\r", (self.folder / "out/logs/worker-0.attempt1.log").read_bytes())

    def test_under_the_launcher_a_task_that_dies_leaves_its_last_line(self):
        controller, terminal = pty.openpty()
        program = "import os, time; os.write(1, b'step 41\\r\\r'); time.sleep(0.3); os._exit(3)"
        process = subprocess.Popen([COHORT, "run", "--output", str(self.folder / "out"), "--", sys.executable,
                                    "-c", program], stdout=terminal, stderr=subprocess.PIPE,
                                   env=self.environment, cwd=self.folder)
        _, errors = process.communicate(timeout=PATIENCE)
        os.close(terminal)
        screen, _ = render(os.read(controller, 65536))
        os.close(controller)
        self.assertEqual(process.returncode, 3)
        self.assertEqual(screen, [f"{os.uname().nodename}:worker/0 step 41", ""])
        self.assertIn("step 41", errors.decode().splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
