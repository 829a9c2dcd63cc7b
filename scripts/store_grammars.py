"""Writes the stored grammars beside `grammars/*.lark`; see `guided/frontends/library.py`.

Run it after a change of a grammar, of the front end for Lark, or of guided's version, as
`python scripts/store_grammars.py`.
`tests/test_library.py` fails until then.
"""

from __future__ import annotations

from guided.frontends.library import store_library

if __name__ == "__main__":
    store_library()
