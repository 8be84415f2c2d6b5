"""What is printed: tables, descriptions, durations, JSONPath. Nothing here opens a connection."""
