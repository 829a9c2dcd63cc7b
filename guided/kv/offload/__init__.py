"""A cache in CPU memory, with a ring of slots on the compute device."""
