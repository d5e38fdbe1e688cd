#!/usr/bin/env python3
"""web/dist is fit to be put into the program: small, closed in itself, and what the sources in web/ give.

usage: page_bundle_test.py SOURCE_DIR

The last needs node and web/node_modules (`make page` installs them); without, the test says so and is skipped (77) once the
rest has passed. First proves that each check can fail.
"""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST_GZIP_BYTES = 90_000
SECONDS = 240


def check_files(files):
    """Complaints about a bundle: path -> bytes."""
    size = sum(len(gzip.compress(data, 9)) for data in files.values())
    if size > MOST_GZIP_BYTES:
        yield f"the bundle has {size} bytes after gzip, more than {MOST_GZIP_BYTES}"
    page = files.get("index.html", b"").decode()
    if not page:
        yield "there is no index.html"
    named = set(re.findall(r'(?:src|href)="([^"]*)"', page))
    for name in sorted(named):
        if name.lstrip("/") not in files or not re.fullmatch(r"/assets/[\w-]+-[0-9A-Za-z]{8}\.\w+", name):
            yield f"index.html names {name}, which is no file with a hash in its name in assets/"
    for name in sorted(set(files) - {"index.html"} - {name.lstrip("/") for name in named}):
        yield f"{name} is not named by index.html"
    if re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page):
        yield "index.html has a script or a style inside, which the content security policy forbids"


def self_test():
    page = b'<script src="/assets/main-ABCD1234.js"></script>'
    good = {"index.html": page, "assets/main-ABCD1234.js": b"x"}
    assert not [*check_files(good)]
    noise = b"".join(str(number * number).encode() for number in range(60_000))
    for change in (
        {"index.html": b""},
        {"index.html": page + b'<script src="https://example.org/x.js"></script>'},
        {"index.html": page + b"<script>1</script>"},
        {"index.html": page + b'<p style="color: red">'},
        {"assets/more-ABCD1234.js": b""},
        {"assets/main-ABCD1234.js": noise},
    ):
        assert [*check_files({**good, **change})], change.keys()


def run(web, *command):
    done = subprocess.run(command, cwd=web, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    return [] if done.returncode == 0 else [f"{' '.join(command)}:\n{done.stdout}"]


def check_types(web):
    """The types of the API are those of its OpenAPI document."""
    kept = web / "src/api/schema.d.ts"
    document = web.parent / "src/cohort/service/api/openapi.json"
    with tempfile.TemporaryDirectory(prefix="cohort-page-") as folder:
        made = pathlib.Path(folder) / "schema.d.ts"
        failed = run(web, "node_modules/.bin/openapi-typescript", str(document), "-o", str(made))
        if failed:
            return failed
        if made.read_text() != kept.read_text():
            return ["web/src/api/schema.d.ts is not what openapi.json gives; run make page"]
    return []


def main():
    self_test()
    web = pathlib.Path(sys.argv[1]).resolve() / "web"
    dist = web / "dist"
    files = {path.relative_to(dist).as_posix(): path.read_bytes() for path in dist.rglob("*") if path.is_file()}
    complaints = [*check_files(files)]
    tools = shutil.which("node") and (web / "node_modules/.bin/openapi-typescript").exists()
    if tools:
        complaints += run(web, "node", "build.mjs", "--check") + check_types(web)
    if complaints:
        print("\n".join(complaints))
        return 1
    if not tools:
        print("whether web/dist is current was not checked: it takes node and web/node_modules (make page)")
        return 77
    print(f"page: {len(files)} files, as the sources give them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
