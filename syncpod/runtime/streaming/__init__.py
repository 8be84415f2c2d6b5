"""The streams of exec, attach and port-forward, over HTTP on the loopback address.

CRI answers these three calls with a URL, to which the client then connects with one of two protocols: WebSocket
messages on numbered channels, or SPDY/3.1 streams (the default of crictl and kubectl). One port serves both, with the
features of the streaming server in containerd and CRI-O and, in addition, version 5 of the WebSocket protocol, and SPDY
within a WebSocket.
"""

from syncpod.runtime.streaming.server import StreamingServer
from syncpod.runtime.streaming.tickets import TooManyTickets

__all__ = ["StreamingServer", "TooManyTickets"]
