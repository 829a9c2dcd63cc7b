"""From files to models: configs, named tensors, adapters, and the architecture of a file."""
