"""Does what pages of docs/ say: writes their files, runs their commands against an installed Cohort, in an
empty folder and a clean environment: nothing of this tree is on the PATH or in a variable. Pages after the
first go on in its folder.

    guide_test.py SOURCE_DIR BUILD_DIR guide.md|own-loop.md|side-by-side.md|program.md ...
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
PAGES = sys.argv[3:]
LIMIT = 600  # seconds for one command
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# Open MPI does not start as root, or more ranks than there are cores, unless it is told to.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def parts(text):
    """The page's files, as (name, content), and commands, as (None, command), in their order."""
    fence = re.compile(r"(?:^`([\w.]+)`[^`\n]*:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
    for name, kind, content in fence.findall(text):
        if name:
            yield name, content
        elif kind == "console":
            yield from ((None, line[2:]) for line in content.splitlines() if line.startswith("$ "))


def clean_environment(home):
    """What a shell has before anything is set; CMake is put there where it is not the system's."""
    path = SYSTEM_PATH
    if not shutil.which("cmake", path=SYSTEM_PATH):
        tools = home / "tools"
        tools.mkdir()
        (tools / "cmake").symlink_to(shutil.which("cmake"))
        path = f"{tools}:{path}"
    return {"HOME": str(home), "PATH": path} | MPI


def run_page(page, environment, work):
    """Its commands' number, and all that they printed."""
    commands, printed = 0, ""
    for name, content in parts((SOURCE / "docs" / page).read_text()):
        if name:
            (work / name).write_text(content)
            continue
        if content.startswith("mpirun ") and not shutil.which("mpirun", path=environment["PATH"]):
            continue
        commands += 1
        done = subprocess.run(["bash", "-ec", content], cwd=work, env=environment, text=True,
                              timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"$ {content}\n{done.stdout[-3000:]}", flush=True)
        if done.returncode != 0:
            sys.exit(f"guide_test: {shlex.quote(content)} ended with {done.returncode}")
        printed += done.stdout
    return commands, printed


def check_guide(commands, printed):
    weights = re.findall(r"weights ([0-9a-f]{64})", printed)
    if commands < 8 or len(weights) < 4:
        sys.exit(f"guide_test: only {commands} commands and {len(weights)} fingerprints were seen")
    if len(set(weights)) != 1:
        sys.exit(f"guide_test: the guide promises the same weights, but they are {set(weights)}")


def check_own_loop(commands, printed):
    weights = re.findall(r"weights ([0-9a-f]{64})", printed)
    if len(weights) != 4 or len(set(weights)) != 1:
        sys.exit(f"guide_test: own-loop.md promises the same weights four times, but they are {weights}")


def check_side_by_side(commands, printed):
    # Two workers each time: the loop of one's own, then the Trainer.
    if len(re.findall(r"epoch 3 loss 0\.\d{4}\b", printed)) != 2 or commands != 7:
        sys.exit(f"guide_test: {commands} commands of side-by-side.md did not print what they should (above)")
    if len(re.findall(r"weights ([0-9a-f]{64})", printed)) < 2:
        sys.exit("guide_test: the Trainer of side-by-side.md did not train twice (above)")


def check_program(commands, printed):
    if commands < 3 or printed.count("worker/2 was here") < 3:
        sys.exit(f"guide_test: {commands} commands; three workers did not all see worker/2")
    if re.search("torch", printed, re.IGNORECASE):
        sys.exit("guide_test: a program without LibTorch heard of it (above)")


CHECKS = {"guide.md": check_guide, "own-loop.md": check_own_loop, "side-by-side.md": check_side_by_side,
          "program.md": check_program}


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-guide-") as folder:
        home, work = pathlib.Path(folder, "home"), pathlib.Path(folder, "work")
        home.mkdir()
        work.mkdir()
        subprocess.run(["cmake", "--install", BUILD, "--prefix", home / "cohort"], check=True,
                       stdout=subprocess.DEVNULL)
        environment = clean_environment(home)
        for page in PAGES:
            shutil.rmtree(work / "model", ignore_errors=True)  # a page's own checkpoints only
            CHECKS[page](*run_page(page, environment, work))


main()
