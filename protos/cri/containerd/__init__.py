"""Calls of containerd that CRI does not have: `tasks_pb2` has the messages, `tasks_pb2_grpc` the stub and servicer."""
