"""The node's HTTP API: its requests and answers, its table of routes, and the client of its unix socket.

Paths and types are those of Kubernetes' API, if it has them. The handlers use neither a socket nor a Temporal server:
they get pods from a :class:`~syncpod.api.source.PodSource`. A node's worker serves them on a unix socket
(:mod:`syncpod.agent.api_server`).
"""
