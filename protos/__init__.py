"""The Container Runtime Interface as protocol buffers, and what is generated from them.

`cri/v1/api.proto`, and the few calls of containerd's own in `cri/containerd/tasks.proto`, are written by hand; their
Python modules beside them are generated, checked in, and never edited:

    python -m protos.generate            writes them
    python -m protos.generate --check    says whether they are current
"""
