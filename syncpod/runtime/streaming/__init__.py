"""The streams of exec, attach and port-forward, over HTTP on the loopback address.

CRI answers these three calls with a URL, and its client then connects there, by one of two protocols: WebSocket
messages on numbered channels, or SPDY/3.1 streams (what crictl and kubectl take by default). Both are served on one
port, as far as the streaming server that containerd and CRI-O embed serves them, and version 5 of the WebSocket
protocol, and SPDY within a WebSocket, besides.
"""

from syncpod.runtime.streaming.server import StreamingServer
from syncpod.runtime.streaming.tickets import TooManyTickets

__all__ = ["StreamingServer", "TooManyTickets"]
