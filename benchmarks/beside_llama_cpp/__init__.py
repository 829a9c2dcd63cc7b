"""Compares guided's engine with llama.cpp on the same GGUF files: see __main__.py."""
