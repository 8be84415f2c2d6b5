"""Objects as rows of tables and as texts: rendered where the data is."""
