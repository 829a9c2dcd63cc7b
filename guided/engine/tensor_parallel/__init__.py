"""A model that several processes compute together: rank 0 is the engine, the other ranks run the commands it sends."""
