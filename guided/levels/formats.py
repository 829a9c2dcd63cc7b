r"""Formats of Shakespeare's lines: a pattern for level 3, and a play as a regular expression for the engine.

`NAME_LINE` is a name in capitals, a colon, a space, small letters and a newline. `PLAY_SCRIPT` is the layout of the
text on which the character model was trained, slightly simplified:

    KING HENRY:                     a name of one or two words in capitals
    What says my lord, to-day?      lines of words. Between words: a space, possibly after a pause such as a comma.
    I'll stay; 'tis late.           A sentence begins with a capital. A speech ends with the end of a sentence

    ANNE:                           an empty line between speeches
    Ay.

The expression is built from named parts, which is advisable for any long regular expression. Where a model might not
stop, lengths are bounded: the letters of a word, the words of a line, the lines of a speech. Only the budget
(`max_tokens`) limits the number of speeches, and the engine completes the last speech within it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NAME_LINE", "PLAY_SCRIPT"]

NAME_LINE: Final = [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]

_NAME = r"[A-Z]{2,12}(?: [A-Z]{2,12})?"
_SUFFIX = r"(?:['-][a-z]{1,12}){0,2}"  # the end of "to-day" and "I'll"
_CAPITALISED_WORD = rf"'?(?:[IOA]|[A-Z][a-z]{{1,13}}){_SUFFIX}"
_WORD = rf"'?(?:[IOA]|[A-Z]?[a-z]{{1,13}}){_SUFFIX}"
_PAUSE, _STOP = r"(?:[,;:]|--)", r"[.!?]"
_LINE = rf"{_CAPITALISED_WORD}(?:{_PAUSE}? {_WORD}|{_STOP} {_CAPITALISED_WORD}){{0,9}}"
_SPEECH = rf"{_NAME}:\n(?:{_LINE}(?:{_PAUSE}|{_STOP})?\n){{0,6}}{_LINE}{_STOP}\n"

PLAY_SCRIPT: Final = rf"{_SPEECH}(?:\n{_SPEECH})*"
