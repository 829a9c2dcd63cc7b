"""The grammar IR that every front end produces and the automaton core consumes."""

from guided.grammar.ir import *  # noqa: F403
from guided.grammar.ir import __all__ as __all__
