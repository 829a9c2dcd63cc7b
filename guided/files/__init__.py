"""Model files: their readers, and their download."""
