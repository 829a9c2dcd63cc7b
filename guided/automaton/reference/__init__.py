"""The reference implementation: it defines, in simple Python code, what the native core must compute."""
