"""The kubelet's port of a node in a Kubernetes cluster: what its API server, `kubectl` and readers of metrics ask for.

Who asks: :mod:`.access`, with :mod:`.remembered`. Which path is answered by whom: :mod:`.routes`, with
:mod:`.readings`, :mod:`.container_logs` and :mod:`.streams`, whose bytes :mod:`.relay` passes on. Over TLS:
:mod:`.listener`, with :mod:`.serving_certificate`. All of it put together: :mod:`.port`.
"""
