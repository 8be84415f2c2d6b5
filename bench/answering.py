"""A web server that records when it is requested: ``python -m bench.answering``, in a process of its own.

It prints its port and answers every request with 200. At the end of its input it prints the times of the requests for
each path: ``<path> <seconds> <seconds> …``, by a monotonic clock.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict


async def serve() -> None:
    """Serve on loopback until the input ends."""
    loop = asyncio.get_running_loop()
    asked: defaultdict[str, list[float]] = defaultdict(list)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = loop.time()
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            asked[request.split(b" ", 2)[1].decode()].append(at)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for path, times in asked.items():
        print(path, *(f"{time:.6f}" for time in times))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(serve())
