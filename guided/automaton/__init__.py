"""The automaton core: a grammar over a vocabulary becomes states and token masks.

`_core` is the implementation in C++ (`native/`), and `build.py` passes it a grammar. The modules in `reference/` define
the same behaviour readably; the tests compare the two.
"""
