"""The node's own sources of pods: reads the directory of manifests, and reconciles pods with the list of a source."""
