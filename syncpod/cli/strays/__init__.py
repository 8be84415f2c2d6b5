"""What this machine's runtime has and no workflow asks for: found, adopted, removed."""
