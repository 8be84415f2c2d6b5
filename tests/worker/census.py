"""Counts objects in a worker: instances of its own classes, and entries of its containers and caches.

As a program, it runs `worker.py` with an additional thread, which sends a census on each connection to the socket
`SOCKET`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import socket
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOCKET: Final = "CENSUS_SOCKET"
"""The variable that names the socket."""
_ROOMS: Final = ("syncpod", "workflows", "activities")
_CONTAINERS: Final = (dict, set, list, deque, OrderedDict, defaultdict, Counter)


def census() -> bytes:
    """Return counts as JSON: instances by class, and sizes of containers and caches by their holder.

    A fork counts. It has a reference to every object meanwhile, also to a tuple that another thread is building:
    CPython builds a tuple of unknown length in place, and raises SystemError in that thread if it finds a second one.
    """
    gc.collect()
    readable, writable = os.pipe()
    fork = os.fork()
    if fork == 0:
        try:
            gc.disable()  # a finalizer would end what is the worker's
            with os.fdopen(writable, "wb") as stream:
                stream.write(json.dumps(_counted()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writable)
    with os.fdopen(readable, "rb") as stream:
        counts = stream.read()
    os.waitpid(fork, 0)
    return counts


def _counted() -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if kind is asyncio.TimerHandle and each.cancelled():
            continue  # the loop keeps up to a hundred of these, until their time or more come
        name = f"{kind.__module__}.{kind.__qualname__}"
        found[name] += 1
        if kind.__module__.partition(".")[0] in _ROOMS:
            for attribute, value in _attributes(each):
                if isinstance(value, _CONTAINERS) and not attribute.startswith("__"):
                    found[f"{name}.{attribute}"] += len(value)
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] in _ROOMS]:
        for name, value in _globals(module):
            if isinstance(value, _CONTAINERS):
                found[f"{module.__name__}.{name}"] = len(value)
            elif isinstance(value, functools._lru_cache_wrapper):
                found[f"{module.__name__}.{name}"] = value.cache_info().currsize
    return dict(found)


def _attributes(instance: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(instance, "__dict__", {}).items())
    for kind in type(instance).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            try:
                yield slot, object.__getattribute__(instance, slot)
            except AttributeError:
                continue


def _globals(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from ((f"{name}.{each}", its) for each, its in list(vars(value).items()))
        elif getattr(value, "__module__", module.__name__) == module.__name__:
            yield name, value


def answer(path: str) -> None:
    """Answer each connection to the socket at `path` with a census, for as long as the process lives."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(census())


def ask(path: Path) -> dict[str, int]:
    """Return a census of the worker with this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rb") as stream:
            found: dict[str, int] = json.load(stream)
            return found


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    import worker
    from syncpod.worker.process import end_process

    threading.Thread(target=answer, args=(os.environ[SOCKET],), name="census", daemon=True).start()
    end_process(worker.main())
