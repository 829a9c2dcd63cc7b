r"""What Shakespeare's lines look like: a pattern for level 3, and a play as a regular expression for the engine.

`NAME_LINE` is a name in capitals, a colon and some letters, the format of the first lessons. `PLAY_SCRIPT` is how the
text that the character model has learned is laid out, somewhat tidied:

    KING HENRY:                     a name of one or two words in capitals
    What says my lord, to-day?      lines of words; what stands between them is a space, or a pause, or the end of a
    I'll stay; 'tis late.           sentence, after which comes a capital; a speech ends with a sentence

    ANNE:                           an empty line between speeches
    Ay.

It is written from its parts, as any regular expression of some length should be. Lengths are bounded where a model
might lose its way: letters of a word, words of a line, lines of a speech. How many speeches there are is left to the
budget (`max_tokens`), in which the engine completes the last one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NAME_LINE", "PLAY_SCRIPT"]

NAME_LINE: Final = [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]

_NAME = r"[A-Z]{2,12}(?: [A-Z]{2,12})?"
_REST = r"(?:['-][a-z]{1,12}){0,2}"  # of "to-day", "I'll"
_CAPITALISED = rf"'?(?:[IOA]|[A-Z][a-z]{{1,13}}){_REST}"
_WORD = rf"'?(?:[IOA]|[A-Z]?[a-z]{{1,13}}){_REST}"
_PAUSE, _STOP = r"(?:[,;:]|--)", r"[.!?]"
_WORDS = rf"{_CAPITALISED}(?:{_PAUSE}? {_WORD}|{_STOP} {_CAPITALISED}){{0,9}}"
_SPEECH = rf"{_NAME}:\n(?:{_WORDS}(?:{_PAUSE}|{_STOP})?\n){{0,6}}{_WORDS}{_STOP}\n"

PLAY_SCRIPT: Final = rf"{_SPEECH}(?:\n{_SPEECH})*"
