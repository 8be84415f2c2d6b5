"""A process without privileges that tries to use the ports and files of a node, with the standard library only.

As a program it takes one argument, the attempts to make as JSON, and prints the result of each as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_SECONDS = 10


REBOUND = {"Host": "rebound.example", "Origin": "http://rebound.example"}
"""The headers of a browser's request after DNS rebinding: a stranger's name that resolves to the loopback address."""


def start_by_http(port: int, node: str, workflow_id: str, pod: dict[str, Any], more: dict[str, str]) -> str:
    """Start a pod by the server's HTTP API, which is served at its own port and at the UI's; `more` are headers."""
    encoding, data = (base64.b64encode(part).decode() for part in (b"json/plain", json.dumps(pod).encode()))
    payloads = [{"metadata": {"encoding": encoding}, "data": data}]
    body = {
        "workflowType": {"name": "PodWorkflow"},
        "taskQueue": {"name": f"node/{node}"},
        "input": {"payloads": payloads},
    }
    escaped = urllib.parse.quote(workflow_id, safe="")
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/namespaces/default/workflows/{escaped}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Cookie": "_csrf=mine", "X-CSRF-Token": "mine", **more},
    )
    return _answer(request)


def start_by_grpc(temporal: str, port: int, node: str, workflow_id: str, pod: dict[str, Any]) -> str:
    """Start a pod by gRPC."""
    command = [temporal, "workflow", "start", "--type", "PodWorkflow", "--task-queue", f"node/{node}"]
    command += ["--workflow-id", workflow_id, "--input", json.dumps(pod), "--address", f"127.0.0.1:{port}"]
    environ = {"TEMPORAL_CONFIG_FILE": "/dev/null", "HOME": "/"}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "no answer"
    return "started" if done.returncode == 0 else done.stderr.strip()


def encode(endpoint: str) -> str:
    """Request a signature from the codec server, without its token."""
    request = urllib.request.Request(f"{endpoint}/pod%2Fdefault%2Fweb/encode", data=b'{"payloads": [{"data": "e30="}]}')
    return _answer(request)


def look(path: str) -> str:
    """Read a file, or connect to a socket."""
    try:
        if path.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(path)
        else:
            Path(path).read_bytes()
    except OSError as error:
        return type(error).__name__
    return "open"


def _answer(request: urllib.request.Request) -> str:
    with contextlib.suppress(OSError, ValueError):
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return str(answer.status)
        except urllib.error.HTTPError as refused:
            return str(refused.code)
    return "no HTTP"


def main(tries: dict[str, Any]) -> dict[str, Any]:
    """Make all attempts; return the result of each."""
    node, pod, temporal, name = tries["node"], tries["pod"], tries["temporal"], tries["name"]
    with ThreadPoolExecutor(max_workers=8) as at_once:
        http = {
            # At the API's own port an id cannot have a slash.
            port: at_once.submit(start_by_http, port, node, f"{name}-http-{port}", pod, {})
            for port in tries["ports"]
        }
        rebound = {
            port: at_once.submit(start_by_http, port, node, f"{name}-rebound-{port}", pod, REBOUND)
            for port in tries["ports"]
        }
        grpc = {
            port: at_once.submit(start_by_grpc, temporal, port, node, f"pod/default/{name}-grpc-{port}", pod)
            for port in (*tries["ports"], tries["proxy"])
        }
    return {
        "http": {port: each.result() for port, each in http.items()},
        "rebound": {port: each.result() for port, each in rebound.items()},
        "grpc": {port: each.result() for port, each in grpc.items()},
        "codec": encode(tries["codec"]),
        "files": {path: look(path) for path in tries["files"]},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
