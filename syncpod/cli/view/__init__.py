"""Renders output: tables, descriptions, explanations, JSONPath. Nothing here opens a connection."""
