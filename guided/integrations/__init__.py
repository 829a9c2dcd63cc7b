"""guided inside other systems. Each module imports its system only when it is used."""
