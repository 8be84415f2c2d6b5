"""Renders objects of the API as rows of tables and as text for a terminal."""
