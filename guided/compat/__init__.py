"""Other libraries' interfaces over guided: programs written for them change an import, and nothing else."""
