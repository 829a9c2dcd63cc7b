"""The 65 characters, conversion between texts and ids, and a parser for lines of plays without regular expressions."""

from __future__ import annotations

import torch

from guided.levels import build_char_classes

CHARACTERS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
STOI = {char: token for token, char in enumerate(CHARACTERS)}
CLASSES = build_char_classes(STOI)
END = 65  # the model's end token, which does not occur in training


def ids(text: str) -> torch.Tensor:
    """(1, T)"""
    return torch.tensor([[STOI[char] for char in text]])


def text(row: torch.Tensor) -> str:
    return "".join(CHARACTERS[token] for token in row.flatten().tolist())


def is_play(script: str) -> bool:
    """Whether a text is a play in the sense of `PLAY_SCRIPT`, checked line by line."""
    return all(is_speech(speech) for speech in script.removesuffix("\n").split("\n\n")) and script.endswith("\n")


def is_speech(speech: str) -> bool:
    name, *lines = speech.split("\n")
    return is_name(name) and 1 <= len(lines) <= 7 and all(map(is_line, lines)) and lines[-1][-1:] in tuple(".!?")


def is_name(line: str) -> bool:
    words = line[:-1].split(" ")
    return (
        line[-1:] == ":"
        and len(words) <= 2
        and all(2 <= len(word) <= 12 and set(word) <= set(CHARACTERS[13:39]) for word in words)
    )


def is_line(line: str) -> bool:
    words, begins = line.split(" "), True
    for word in words:
        mark = next((mark for mark in ("--", *",;:.!?") if word.endswith(mark)), "")
        if not is_word(word.removesuffix(mark), capital=begins):
            return False
        begins = mark in tuple(".!?")
    return len(words) <= 10


def is_word(word: str, *, capital: bool) -> bool:
    first, *rest = word.removeprefix("'").replace("-", "'").split("'")
    lower = set(CHARACTERS[39:])
    tail = first[1:] if first[:1] in CHARACTERS[13:39] else first
    fits = first in tuple("IOA") or (1 <= len(tail) <= 13 and set(tail) <= lower)
    rest_fits = len(rest) <= 2 and all(1 <= len(part) <= 12 and set(part) <= lower for part in rest)
    return fits and rest_fits and (first != tail or not capital)
