"""The node's gRPC interfaces as protocol buffers, and the Python modules generated from them.

They are the CRI, a few calls of containerd's own, CSI, the registration of plug-ins, and the kubelet's APIs of pods
and of their resources. The `.proto` files are written by hand. The modules beside them are generated, checked in, and
never edited:

    python -m protos.generate            writes them
    python -m protos.generate --check    says whether they are current
"""
