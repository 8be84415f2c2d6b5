"""Runtimes that are daemons: started until they answer, and called with raw bytes.

Calls are made without the project's own client, since a test harness must not depend on the code under test.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc


def launch(
    name: str, command: Sequence[str | Path], endpoint: str, log: Path, environment: Mapping[str, str], patience: float
) -> subprocess.Popen[bytes]:
    """Start a daemon and wait, at most `patience` seconds, until it reports that runtime and network are ready.

    Its environment is ours with the variables of `environment`. If it does not become ready, it is ended, and
    RuntimeError raised with the end of its log.
    """
    with log.open("ab") as output:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the test run only
        )
    deadline = time.monotonic() + patience
    try:
        while not _is_ready(endpoint):
            if daemon.poll() is not None or time.monotonic() > deadline:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"{name} did not become ready; the end of {log}:\n{end}")
            time.sleep(0.02)
    except BaseException:
        daemon.kill()
        daemon.wait()
        raise
    return daemon


def call(endpoint: str, method: str) -> bytes:
    """Make a CRI call (`RuntimeService/Status`) with an empty request; raises grpc.RpcError."""
    with grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        asks = channel.unary_unary(f"/runtime.v1.{method}", request_serializer=bytes, response_deserializer=bytes)
        answer: bytes = asks(b"", timeout=30)
        return answer


def _is_ready(endpoint: str) -> bool:
    try:
        status = call(endpoint, "RuntimeService/Status")
    except grpc.RpcError:
        return False
    # RuntimeCondition: field 1 the type, a string; field 2 the status, a bool, left out where false.
    return all(condition + b"\x10\x01" in status for condition in (b"RuntimeReady", b"NetworkReady"))
