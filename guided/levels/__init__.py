"""A tutorial on guided decoding of a character model, in three levels that are each short enough for one sitting.

masks.py      the mask, which is the only new step, and level 1: a fixed mask for each position
fsm.py        level 2: a finite state machine, written by hand in plain Python
generate.py   the loop: query, mask, sample, advance
patterns.py   level 3: the library's own core compiles a pattern to such a machine
formats.py    formats of Shakespeare's lines: a pattern, and a play as a regular expression
reader.py     computes the logits; the other modules do not depend on how it does that
"""

from __future__ import annotations

import warnings
from typing import Any

from guided.packages import importing

with importing("guided.levels"):
    from guided.levels.formats import NAME_LINE, PLAY_SCRIPT
    from guided.levels.fsm import FSM, GuidedFSM
    from guided.levels.generate import GuidedOutput, generate_guided
    from guided.levels.masks import apply_token_mask, build_char_classes, generate_guided_static, greedy, sample
    from guided.levels.patterns import CompiledFSM, compile_pattern
    from guided.levels.reader import Reader

__all__ = [
    "FSM",
    "NAME_LINE",
    "PLAY_SCRIPT",
    "CompiledFSM",
    "GuidedFSM",
    "GuidedOutput",
    "Reader",
    "apply_token_mask",
    "build_char_classes",
    "compile_pattern",
    "generate_guided",
    "generate_guided_static",
    "greedy",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name == "Generated":
        warnings.warn("guided.levels.Generated is guided.levels.GuidedOutput", DeprecationWarning, stacklevel=2)
        return GuidedOutput
    raise AttributeError(f"module 'guided.levels' has no attribute {name!r}")
