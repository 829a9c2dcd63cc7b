"""The automaton core: a grammar over a vocabulary becomes states and token masks.

`_core` is the implementation in C++ (`native/`), `build.py` hands it a grammar, and the modules `reference*.py` define
the same behaviour readably; the tests compare the two.
"""
