"""guided's engine beside llama.cpp on the same GGUF files: see __main__.py."""
