"""What the page costs: its size, the first picture of a large job, a live chart, memory over 30 simulated minutes, a log of
200 MB, and 64 open pages against one service.

A real `cohort serve` and a real chromium (bench/page_bench.mjs drives it; tests/page/install installs what it needs). Verified:
every task and every value is on the page, each page has every line, and none asked another address.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTIONS = ("bundle", "paint", "live", "memory", "log", "pages")
WANTED = {
    "page_bundle_gzip_bytes": ("<=", 90_000),
    "page_paint_overview_s": ("<", 1),
    "page_paint_charts_s": ("<", 1),
    "page_live_cores": ("<", 0.2),
    "page_memory_charts_growth": ("<", 1.1),
    "page_memory_logs_growth": ("<", 1.1),
    "page_log_200mb_open_s": ("<", 3),
    "page_log_200mb_search_s": ("<", 5),
    "page_64_pages_missing_lines": ("<=", 0),
    "page_64_pages_service_cores": ("<", 0.5),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all unless given")
    arguments = parser.parse_args()
    sections = arguments.sections or list(SECTIONS)
    if unknown := set(sections) - set(SECTIONS):
        sys.exit(f"page_bench.py: no section {', '.join(sorted(unknown))}; there are: {', '.join(SECTIONS)}")
    if subprocess.run([ROOT / "tests/page/install"]).returncode != 0:
        print("page_bench.py: not measured: no browser here (above)")
        return
    targets = Targets("page")
    for section in sections:
        command = ["node", ROOT / "bench/page_bench.mjs", section, *(["--quick"] if arguments.quick else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1200)
        if done.returncode != 0:
            sys.exit(f"page_bench.py: section {section} failed")
        for line in done.stdout.splitlines():
            if not line.startswith("{"):
                print(line, flush=True)
                continue
            figure = json.loads(line)
            targets.record(figure["name"], figure["values"])
            if wanted := WANTED.get(figure["name"]):
                targets.expect(figure["name"], figure["measured"], *wanted)
    targets.finish()


if __name__ == "__main__":
    main()
