"""Describes how indentation becomes terminals, as in Python. Data only.

Source: lark/indenter.py.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Indentation"]


@dataclass(frozen=True, slots=True)
class Indentation:
    """The terminals `indent` and `dedent`, which have no text: the indentation of lines determines them.

    A stack of widths begins with 0. The width of a line is computed from the text after the last line feed in a lexeme
    of `newline`: 1 for each space, `tab` for each tab, 0 for other characters. If the width is larger than the top of
    the stack, it is pushed, and `indent` follows. If it is smaller, widths are popped, with one `dedent` each, until
    the top is no larger. If the top then differs from the width, the text is rejected. At the end of the text, one
    `dedent` follows for each remaining width except the first.

    Between terminals of `opening` and `closing`, lexemes of `newline` are dropped. Elsewhere, a lexeme of `newline`
    without a line feed is rejected. So is a text with more closing than opening terminals. The lexer tries `newline`
    everywhere, so that it can be dropped; it may shadow other terminals.

    The stack has at most `most_levels` widths, including the first, and no width above `most_width`. Deeper indentation
    is rejected. Python has the same limit on levels.
    """

    newline: str
    indent: str
    dedent: str
    opening: frozenset[str] = frozenset()
    closing: frozenset[str] = frozenset()
    tab: int = 8
    most_levels: int = 100
    most_width: int = 400
