"""guided inside other systems. Each module imports its system where it is asked for, and not before."""
