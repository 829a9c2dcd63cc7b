"""Other libraries' interfaces over guided: a program changes an import, and nothing else."""
