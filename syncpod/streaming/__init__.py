"""Both ends of SPDY/3.1, for streams into containers: sessions, frames, and bounded buffers.

The embedded runtime serves exec, attach and port-forward with it, and the command line uses it as a client of any
runtime. Python has no maintained library for this protocol.
"""
