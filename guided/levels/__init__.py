"""Guided decoding of a character model in three levels, each small enough to read at a sitting.

masks.py      the one new step, and level 1: a fixed mask for each position
fsm.py        level 2: a state machine, by hand, in plain Python
generate.py   the loop: query, mask, sample, advance
patterns.py   level 3: a pattern compiles into such a machine, which is the toolkit's own core
formats.py    what Shakespeare's lines look like: a pattern, and a play as a regular expression
reader.py     where the logits come from, which is of no concern to any of these
"""

from guided.packages import importing

with importing("guided.levels"):
    from guided.levels.formats import NAME_LINE, PLAY_SCRIPT
    from guided.levels.fsm import FSM, GuidedFSM
    from guided.levels.generate import Generated, generate_guided
    from guided.levels.masks import apply_token_mask, build_char_classes, generate_guided_static, greedy, sample
    from guided.levels.patterns import CompiledFSM, compile_pattern
    from guided.levels.reader import Reader

__all__ = [
    "FSM",
    "NAME_LINE",
    "PLAY_SCRIPT",
    "CompiledFSM",
    "Generated",
    "GuidedFSM",
    "Reader",
    "apply_token_mask",
    "build_char_classes",
    "compile_pattern",
    "generate_guided",
    "generate_guided_static",
    "greedy",
    "sample",
]
