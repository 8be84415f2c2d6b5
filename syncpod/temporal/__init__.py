"""The parts that all Temporal clients of the project share: data converter, interceptors, tracing, workflow starts."""
