"""Keys and values in the memory of the CPU, with a ring of slots on the device that computes."""
