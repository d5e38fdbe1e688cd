"""Functions, results and exceptions of run() as bytes.

With cloudpickle any function will do; without it, one that pickle can name: of a module, or of the program that calls
run(), which workers then import as multiprocessing's do (it needs its `if __name__ == "__main__":`).
"""

from __future__ import annotations

import pickle
import sys
from multiprocessing import spawn
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

Work = Tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


def dump(value: object, what: str) -> bytes:
    """Throws TypeError, which says what it is that cannot be sent."""
    try:
        return bytes(_pickler().dumps(value, protocol=4))
    except Exception as error:  # pickle and the objects' own methods throw anything
        advice = "" if _has_cloudpickle() else ". With cloudpickle most functions can: pip install cloudpickle"
        raise TypeError(f"{what} cannot be sent to another process: {error}{advice}") from error


def dump_work(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    preparation: Dict[str, Any] = {"sys_path": list(sys.path), "sys_argv": list(sys.argv)}
    if not _has_cloudpickle():
        data = spawn.get_preparation_data("cohort-run")
        preparation.update({key: data[key] for key in data if key.startswith("init_main")})
    return pickle.dumps((preparation, dump((func, tuple(args), dict(kwargs)), "the function or an argument of it")))


def load_work(data: bytes) -> Work:
    preparation, work = pickle.loads(data)
    spawn.prepare(preparation)
    func, args, kwargs = pickle.loads(work)
    return func, args, kwargs


def dump_error(error: BaseException) -> Optional[bytes]:
    """None where it cannot be sent; its text goes another way."""
    try:
        data = dump(error, "the exception")
        pickle.loads(data)  # many can be written, and not be read again
        return data
    except Exception:  # the exception's own methods throw anything; its text is reported all the same
        return None


def _has_cloudpickle() -> bool:
    return _pickler() is not pickle


def _pickler() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle
