"""CRI v1: `api_pb2` has the messages, `api_pb2_grpc` the stubs and servicers."""
