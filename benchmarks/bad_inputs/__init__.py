"""Searches for bad inputs: short specifications and requests that cost a server much time or memory.

`schemas.py`, `texts.py`, `bodies.py` and `others.py` list what can be scaled: each construct of each front end, and
each field of each request body. Each construct (`construct.py`) is a function of n whose result has a size linear in n.
`search.py` doubles n, each time in a new process, until a call (`calls.py`) takes longer than its bound or the cost
grows faster than n. `python -m benchmarks.bad_inputs` prints the findings.
"""
