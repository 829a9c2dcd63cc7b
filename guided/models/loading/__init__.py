"""From files to models: configs, named tensors, adapters, and which architecture a file is of."""
