"""The Container Runtime Interface as protocol buffers, and what is generated from them.

`cri/v1/api.proto` is written by hand; its Python modules beside it are generated, checked in, and never edited:

    python -m protos.generate            writes them
    python -m protos.generate --check    says whether they are current
"""
