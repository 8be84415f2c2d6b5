"""The output: tables, descriptions, durations, JSONPath. Nothing here opens a connection."""
