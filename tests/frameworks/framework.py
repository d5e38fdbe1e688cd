"""What the framework tests share: the launcher's test case, with the programs of scripts/."""

import datetime
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "launcher"))

import launcher  # noqa: E402

# Four TensorFlow processes that start together on two busy cores take half a minute.
launcher.PATIENCE = 180


class FrameworkTest(launcher.LauncherTest):
    def program(self, name, *arguments):
        """The words that run scripts/NAME with the Python that has the frameworks."""
        return ["--", launcher.PYTHON, str(HERE / "scripts" / name), *map(str, arguments)]

    def run_program(self, *words, env=None):
        """Runs a job that must succeed."""
        result = self.run_job(*words, env=env)
        self.assertEqual(result.code, 0, result.stdout.decode(errors="replace")[-4000:] + result.stderr)
        return result

    def fields(self, result, task, line_start):
        """The name=value words of the one line of this task's log that starts with `line_start`."""
        lines = [line for line in result.log(task).decode().splitlines() if line.startswith(line_start)]
        self.assertEqual(len(lines), 1, f"{task} printed {lines}")
        return dict(re.findall(r"(\w+)=(\[.*?\]|\S+)", lines[0]))

    def assert_root_cause(self, result, task, *codes):
        """The job failed with one of `codes`; everything that names a culprit names this task."""
        self.assertIn(result.code, codes, result.stderr)
        self.assertRegex(result.last_line, rf"^cohort: {task} on \S+ \(pid \d+\) ")
        cause = result.record()["root_cause"]
        self.assertEqual(f"{cause['type']}/{cause['index']}", task)
        self.assertEqual(cause["exit_code"], result.code)

    def seconds_from_end_of(self, result, task):
        """How long the job went on after this task had ended."""
        record = result.record()
        ended = {f"{t['type']}/{t['index']}": t["ended"] for t in record["tasks"]}[task]
        parse = datetime.datetime.fromisoformat
        return (parse(record["ended"].replace("Z", "+00:00")) - parse(ended.replace("Z", "+00:00"))).total_seconds()
