"""What both ends of a stream into a container are made of: SPDY/3.1 sessions and frames, and bounded buffers.

The embedded runtime serves exec, attach and port-forward with it, and the command line asks for them: of this runtime
and of every other. There is no library of this protocol in Python that is kept up.
"""
