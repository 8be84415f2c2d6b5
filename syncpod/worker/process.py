"""The process of a node's worker: its settings, its log, its signals and its exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from temporalio.envconfig import ClientConnectConfig

from syncpod.agent.takeover.preconditions import CannotServe
from syncpod.checked_settings import require_valid
from syncpod.kernel import early_listening
from syncpod.kernel.daemon_thread import started_pool
from syncpod.kernel.libc import map_large_blocks, share_arenas
from syncpod.kernel.listening import log_failed_accepts
from syncpod.kernel.machine import own_addresses
from syncpod.kernel.os_errors import is_of_the_machine, sentence_of
from syncpod.kernel.process_priority import NODE as OOM_SCORE
from syncpod.kernel.process_priority import lower_oom_score_adj, prefer_this_process
from syncpod.redaction import of_process
from syncpod.settings.command_line import parse_arguments
from syncpod.settings.node import NodeSettings
from syncpod.settings.values import SettingsInvalid
from syncpod.temporal.plugin import NoServer, connection_settings
from syncpod.worker.assembly import early_ports
from syncpod.worker.log import log_to_stderr
from syncpod.worker.served import ServedByNode
from syncpod.worker.serving import CriOf, serve

log = logging.getLogger("syncpod.worker")
_LARGE_BLOCK_BYTES = 1024 * 1024
"""Blocks of at least this size go back to the kernel when freed. An exec probe's answer may have 16 MiB."""
_ARENAS = 2
"""How many arenas libc may use. Only one Python thread runs at a time, beside a few threads of the SDK's core."""
_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of the event loop's pool: as many as asyncio would begin when they are needed."""
PATIENCE_SECONDS = 20.0
"""How long the process waits for calls that were sent to the runtime; RunPodSandbox alone may take four minutes."""


def run(served: ServedByNode, arguments: Sequence[str] | None, cri_of: CriOf) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. None = the arguments are those of the process."""
    level, read_settings = parse_arguments(arguments)
    try:
        settings = read_settings(os.environ)
        require_valid(settings)  # before the runtime or the server is reached
        log_to_stderr(level, is_json=settings.json_log)
        prefer_this_process()
        if not lower_oom_score_adj(OOM_SCORE):
            log.info("may not lower oom_score_adj: if memory runs out, Guaranteed pods outlive this worker")
        early_listening.receive(os.environ)
        early_listening.listen_first(early_ports(settings, settings.node_ip or own_addresses()))
        _spare_the_collector()
        map_large_blocks(_LARGE_BLOCK_BYTES)
        share_arenas(_ARENAS)
        asyncio.run(_until_signalled(served, settings, connection_settings(), cri_of))
    except (SettingsInvalid, NoServer, CannotServe) as refusal:
        sys.stderr.write(f"syncpod worker: {of_process.redact(str(refusal))}\n")
        return 2
    except OSError as error:
        if not is_of_the_machine(error):
            log.exception("the worker failed")
        else:
            log.debug("the worker ends", exc_info=error)
            sys.stderr.write(f"syncpod worker: {of_process.redact(sentence_of(error))}\n")
        return 1
    except Exception:
        log.exception("the worker failed")
        return 1
    return 0


def _spare_the_collector() -> None:
    """Collect garbage less often than Python does by default.

    With thousands of cached pods, the default takes 40 % of the worker's CPU. Nearly all objects are freed by reference
    count, even those of an evicted workflow (`syncpod/temporal/workflow_watch.py`). The rest, mostly cycles of the SDK
    around timers and steps, is collected in the young generations: at the latest after half a million allocations. A
    full collection stops the worker for seconds with thousands of pods, so it is rare. Imported modules are exempt.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 500)


async def _until_signalled(
    served: ServedByNode, settings: NodeSettings, connection: ClientConnectConfig, cri_of: CriOf
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    log_failed_accepts(loop)
    loop.set_default_executor(started_pool(_THREADS, "asyncio"))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop_requested, stop)
    serving = asyncio.create_task(serve(served, settings, connection, stop, cri_of), name="serve")
    stopping = asyncio.create_task(stop.wait(), name="stopping")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({serving}, timeout=PATIENCE_SECONDS)
    if not serving.done():
        log.warning("a call to the runtime does not end; it is left to the next worker, which looks before it acts")
        logging.shutdown()
        os._exit(0)
    await serving


def _stop_requested(stop: asyncio.Event) -> None:
    """Stop in order at the first signal, and at once at the second: every step is safe to repeat."""
    if stop.is_set():
        os._exit(130)
    log.info("stopping; the pods run on")
    stop.set()


def end_process(code: int) -> NoReturn:
    """End this process with an exit code, after its last output, without the interpreter's shutdown.

    In that shutdown, a process that has run a Temporal worker sometimes aborts.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
