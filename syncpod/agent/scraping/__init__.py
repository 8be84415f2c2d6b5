"""The node's HTTP endpoint for dashboards and alerts: metrics in Prometheus' format, health, pods and their usage."""
