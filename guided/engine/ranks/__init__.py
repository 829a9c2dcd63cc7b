"""A model that several processes compute together: rank 0 is the engine, the others do what it tells them."""
