"""The registration of plugins with a node agent."""
