"""Other libraries' interfaces over guided: a program changes only an import."""
