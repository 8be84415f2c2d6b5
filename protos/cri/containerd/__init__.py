"""What containerd serves beside CRI: `tasks_pb2` has the messages, `tasks_pb2_grpc` the stub and servicer."""
