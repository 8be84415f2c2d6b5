"""What every Temporal client of the project shares: converter, interceptors, spans, how a pod's run is started."""
