"""The embedded runtime: a CRI v1 server whose containers are processes of this machine, with no isolation.

It stands where there is no containerd and no root. Everything above it speaks CRI and cannot tell the difference, but
for what it says that it cannot do. Start reading at `server.py`; `port.py` is what the state machine asks of the
processes below it, real (`supervised.py`) or simulated (`simulated.py`).
"""
