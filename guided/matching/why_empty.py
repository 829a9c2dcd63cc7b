"""Hints for specifications that generate nothing, by their kind. Data only."""

from __future__ import annotations

from typing import Final

__all__ = ["WHY_EMPTY"]

WHY_EMPTY: Final = {
    "regex": "its parts contradict each other: check lookarounds, empty sets and lone surrogates",
    "json_schema": "its keywords contradict each other",
    "choice": "give at least one string without lone surrogates",
    "pattern": "give a class with characters",
    "lark": "look for rules that can never end, and for terminals that others shadow",
    "gbnf": "look for rules that can never end, and for empty character classes",
    "structural_tag": "look for contradictions: an end that is excluded, a schema that allows nothing",
    "expr": "look for parts that contradict each other, and for rules that can never end",
}
