"""Bugs in the embedded runtime, and in the streams into containers."""

from qa.planted.plant import Plant

STREAMING = "syncpod/streaming"
RUNTIME = "syncpod/runtime"

BUGS = (
    Plant(
        name="stream-ends-before-its-last-bytes",
        room=STREAMING,
        file="syncpod/streaming/spdy_frames.py",
        before="return Data(stream_id, piece, fin and not remaining)",
        after="return Data(stream_id, piece, fin)",
        harm="The end of a large answer through port-forward is cut off.",
        tests=("tests/streaming",),
    ),
    Plant(
        name="links-above-the-root",
        room=RUNTIME,
        file="syncpod/runtime/images/unpacking.py",
        before="real = real if real == root else real.parent",
        after="real = real.parent",
        harm="A layer of an image writes anywhere on the machine, by a symlink to ../../..",
        tests=("tests/runtime/test_load.py",),
    ),
    Plant(
        name="ticket-used-twice",
        room=RUNTIME,
        file="syncpod/runtime/streaming/tickets.py",
        before="self._tickets.pop(token, None)",
        after="self._tickets.get(token)",
        harm="Whoever has seen the URL of an exec can run it again within a minute.",
        tests=("tests/runtime/test_streaming_requests.py", "tests/runtime/test_server_streams.py"),
    ),
)
