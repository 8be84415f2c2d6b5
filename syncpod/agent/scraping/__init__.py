"""What dashboards and alerts read of a node over HTTP: its metrics in Prometheus' format, and its health."""
