"""The grammar IR, which every front end produces and the automaton core consumes."""

from guided.ir.nodes import *  # noqa: F403
from guided.ir.nodes import __all__ as __all__
