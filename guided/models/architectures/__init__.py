"""The architectures, one file for each."""
