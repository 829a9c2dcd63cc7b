"""Writes the stored grammars next to `grammars/*.lark`; see `guided/frontends/library.py`.

Run `python scripts/store_grammars.py` after you change a grammar, the Lark front end, or guided's version. Until then,
`tests/test_library.py` fails.
"""

from __future__ import annotations

from guided.frontends.library import store_library

if __name__ == "__main__":
    store_library()
