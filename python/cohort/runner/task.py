"""A worker of run(): gets the function, calls it, reports what came of it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, Dict, NoReturn

from cohort.runner import channel, pickling


def main() -> None:
    path, token = os.environ.pop(channel.SOCKET, ""), os.environ.pop(channel.TOKEN, "")
    if not path or not token:
        sys.exit(f"cohort.runner.task is started by cohort.run(): {channel.SOCKET} and {channel.TOKEN} are not set")
    parent = channel.Client(path, bytes.fromhex(token))
    work = parent.receive()
    parent.watch(_parent_is_gone)
    try:
        func, args, kwargs = pickling.load_work(work)
        result = func(*args, **kwargs)
        report: Dict[str, Any] = {"rank": _rank(), "value": pickling.dump(result, "what the function returned")}
    except Exception as error:
        frames = error.__traceback__ and error.__traceback__.tb_next  # without that of this function
        text = "".join(traceback.format_exception(type(error), error, frames))
        report = {"rank": _rank(), "error": pickling.dump_error(error), "text": text}
        parent.report(pickling.dump(report, "a report"))
        raise
    parent.report(pickling.dump(report, "a report"))


def _parent_is_gone() -> NoReturn:
    os.write(2, b"cohort: the process that called run() is gone; this worker ends, too\n")
    os._exit(1)


def _rank() -> int:
    """As the function knows it: elastic workers are numbered anew. Without a world, as the launcher counts."""
    basics = sys.modules.get("cohort.common.basics")
    if basics is not None and basics.is_initialized():
        return int(basics.rank())
    return int(os.environ["COHORT_RANK"])
