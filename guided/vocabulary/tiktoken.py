"""Reads tiktoken vocabularies: an `Encoding` object, or a ranks file.

In: an object with `_mergeable_ranks`, `_special_tokens` and `_pat_str`, or a file of lines "base64 rank". Out: a
`Source`. A token's id is its rank; the ids of missing ranks have no token; special tokens have their own ids. Encoding
is BPE by ranks after the pre-tokenizer pattern. Source: https://github.com/openai/tiktoken (load.py, educational.py).
Cost: one pass, about a microsecond per token. tiktoken itself is imported when text is first encoded.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from guided.errors import VocabularyError
from guided.vocabulary.byte_pairs import build_pairs_from_ranks
from guided.vocabulary.encoders import make_ranks_encoder
from guided.vocabulary.pretokenizers import PATTERNS
from guided.vocabulary.source import MAX_SIZE, Source, check_ids

__all__ = ["build_source_from_ranks", "list_tokens_by_rank", "read_tiktoken"]


def read_tiktoken(encoding: Any, special: Mapping[int, str] | Mapping[str, int] | None, pattern: str | None) -> Source:
    """The tokens of an `Encoding` or of a ranks file."""
    if isinstance(encoding, (str, PathLike)):
        path = Path(encoding)
        return build_source_from_ranks(_read_ranks(path.read_bytes(), path), _map_names(special or {}), pattern, set())
    try:
        ranks, declared_tokens, own_pattern = encoding._mergeable_ranks, encoding._special_tokens, encoding._pat_str
    except AttributeError:
        raise VocabularyError(
            f"from_tiktoken takes a tiktoken.Encoding or the path of a ranks file, not {type(encoding).__name__}"
        ) from None
    names = _map_names(declared_tokens) | _map_names(special or {})
    end_ids = {number for number, name in names.items() if name == "<|endoftext|>"}
    return build_source_from_ranks(ranks, names, pattern or own_pattern, end_ids)


def build_source_from_ranks(
    ranks: Mapping[bytes, int], special: Mapping[int, str], pattern: str | None, end_ids: set[int]
) -> Source:
    """A vocabulary whose ids are ranks."""
    patterns = PATTERNS.get(pattern, (pattern,)) if pattern is not None else (None,)
    if len(patterns) > 1:
        steps = len(patterns)
        raise VocabularyError(
            f"the pre-tokenizer {pattern!r} splits in {steps} steps, but tiktoken supports only one pattern"
        )
    return Source(
        list_tokens_by_rank(ranks),
        end_ids,
        special,
        lambda: make_ranks_encoder(ranks, patterns[0]),
        byte_pairs=lambda: build_pairs_from_ranks(ranks, patterns[0]),
    )


def list_tokens_by_rank(ranks: Mapping[bytes, int]) -> list[bytes | None]:
    """The tokens by id; None for a missing rank.

    Raises:
        VocabularyError: two tokens have the same rank, or a rank is much larger than the number of tokens.
    """
    largest_rank = max(ranks.values(), default=-1)
    if largest_rank >= min(MAX_SIZE, 2 * len(ranks) + 65_536) or min(ranks.values(), default=0) < 0:
        raise VocabularyError(f"a token has the rank {largest_rank}, but there are {len(ranks)} tokens")
    out: list[bytes | None] = [None] * (largest_rank + 1)
    for token, rank in ranks.items():
        out[rank] = token
    if len(out) - out.count(None) != len(ranks):
        raise VocabularyError("two tokens have the same rank")
    return out


def _map_names(special: Mapping[int, str] | Mapping[str, int]) -> dict[int, str]:
    """Special tokens as id -> name, from id -> name or name -> id."""
    pairs: list[tuple[Any, Any]] = [
        (key, value) if isinstance(value, str) else (value, key) for key, value in special.items()
    ]
    check_ids([number for number, _ in pairs], "special_tokens")
    return dict(pairs)


def _read_ranks(data: bytes, path: Path) -> dict[bytes, int]:
    """Read a ranks file as token -> rank. The result is at most as large as the file."""
    lines = data.splitlines()
    ranks: dict[bytes, int] = {}
    try:
        for line in filter(None, lines):
            spelling, rank = line.split()
            ranks[a2b_base64(spelling, strict_mode=True)] = _parse_rank(rank)
    except (ValueError, Base64Error) as error:
        reason = f"{line[:60]!r} is not a base64 token and its rank: {str(error)[:100]}"
        raise VocabularyError(f"{path}: line {lines.index(line) + 1}: {reason}") from None
    if len(ranks) != len(list(filter(None, lines))):
        raise VocabularyError(f"{path}: a token is listed twice")
    if not ranks:
        raise VocabularyError(f"{path}: the file lists no tokens")
    return ranks


def _parse_rank(digits: bytes) -> int:
    if len(digits) > 9 or not digits.isdigit():
        raise ValueError(f"invalid rank {digits[:20]!r}")
    return int(digits)
