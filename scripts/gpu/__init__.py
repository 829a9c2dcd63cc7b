"""The parts of scripts/check_gpu.py: what is checked and measured on a GPU."""
