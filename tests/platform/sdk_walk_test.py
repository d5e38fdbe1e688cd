"""Does what the walk-through of docs/sdk.md says: writes its file, runs its cells in their order, as one script,
in an empty folder, with a service that starts on demand."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import sdk_service

PAGE = sdk_service.SOURCE / "docs/sdk.md"


def parts(text):
    """The files of the walk-through, {name: content}, and its cells."""
    [walk] = re.findall(r"^## A walk-through$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    fence = r"(?:^`([\w.]+)`, in a folder `(\w+)`:\n\n)?^```python\n(.*?)^```$"
    found = re.findall(fence, walk, re.MULTILINE | re.DOTALL)
    return ({f"{folder}/{name}": content for name, folder, content in found if name},
            [content for name, _, content in found if not name])  # fmt: skip


def run(folder):
    files, cells = parts(PAGE.read_text())
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    marks = [f"print('--- cell {number}', flush=True)\n{cell}" for number, cell in enumerate(cells)]
    done = subprocess.run([sys.executable, "-uc", "\n".join(marks)], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=sdk_service.PATIENCE,
                          env=sdk_service.clean_environment(folder))  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, f"the walk-through ended with {done.returncode}"
    return len(cells), done.stdout


def check(folder, cells, printed):
    """That the page's promises came true."""
    assert cells >= 8, f"only {cells} cells"
    model = json.loads(next(folder.glob("fetched/**/model.json")).read_text())
    assert abs(model["slope"] - 3) < 0.01, model
    assert "epoch=4 loss=0.0" in printed
    assert re.search(r"^name +step +value +time$", printed, re.MULTILINE), "no table of metrics"
    assert printed.count("\nloss ") == 5, "the curve has five points"
    assert "succeeded {'epochs': 5, 'rate': 0.2}" in printed
    assert re.search(r"^failed: .*--epochs.* 2$", printed, re.MULTILINE), "the failure does not name its root cause"
    assert printed.count(" succeeded\n") >= 2 and "in-the-background succeeded" in printed


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-walk-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        try:
            check(folder, *run(folder))
        finally:
            sdk_service.end_service(folder)


if __name__ == "__main__":
    main()
