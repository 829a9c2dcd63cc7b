"""The automaton core: a grammar over a vocabulary becomes states and token masks.

`_core` is the implementation in C++ (`native/`), and `build.py` passes grammars to it. The modules in `reference/`
implement the same behaviour in simple Python code; the tests compare the two.
"""
