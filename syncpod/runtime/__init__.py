"""The embedded runtime: a CRI v1 server whose containers are processes of this machine, with no isolation.

It is for machines without containerd, and needs no root. To its clients it is like any CRI runtime, but it refuses
requests for features that it lacks. Start reading at `server.py`. `port.py` is the interface between the state machine
and its processes, which are real (`processes/supervised.py`) or simulated (`simulation/processes.py`).
"""
