"""The rules of a byte-level BPE tokenizer as data: its merges, and how it splits text into words.

In: the contents of a tokenizer file. Out: `BytePairs`. To encode text, guided calls another package (such as
tokenizers or tiktoken). Canonical masks need to know which ids that package can never produce (matching/canonical/), so
they need the rules themselves.

Supported: byte-level tokenizers that split text into words by patterns and then merge pairs by rank. GPT-2's kind has a
list of merges. In tiktoken's kind, two tokens merge if their concatenation is a token, the lowest rank first. Anything
else raises an error that names the unsupported part: SentencePiece, a normalizer other than NFC, randomly dropped
merges, overlapping added tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from guided.errors import UnsupportedError, brief
from guided.frontends.common.aho_corasick import Trie
from guided.vocabulary.pretokenizers import PATTERNS
from guided.vocabulary.spelling import byte_alphabet, from_byte_alphabet

__all__ = [
    "BytePairs",
    "BytePairsFactory",
    "Merge",
    "Split",
    "build_pairs_from_huggingface",
    "build_pairs_from_merges",
    "build_pairs_from_ranks",
    "find_overlap",
    "no_byte_pairs",
]

HINT: Final = "omit `canonical`, or use a byte-level BPE tokenizer (as in GPT-2 or tiktoken)"
_REQUIRED_BYTES: Final = (0x0A, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC3, 0xF1))
Engine = Literal["rust", "oniguruma"]


@dataclass(frozen=True, slots=True)
class Split:
    """A step that splits a text: each match of a pattern is a piece, and so is the text between two matches.

    Attributes:
        pattern: a regular expression, searched from left to right.
        engine: the regex engine whose semantics apply: Rust's fancy-regex (tiktoken) or Oniguruma (tokenizers).
        must_cover: the tokenizer drops text between matches, so the matches must cover the whole text.
    """

    pattern: str
    engine: Engine
    must_cover: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """Two tokens that merge into `merged`. The lowest `rank` merges first; among equal ranks, the leftmost pair."""

    left: int
    right: int
    rank: int
    merged: int


@dataclass(frozen=True, slots=True)
class BytePairs:
    """The rules of a tokenizer.

    Attributes:
        ids: bytes -> id of the tokens that words consist of. They include every byte in `_REQUIRED_BYTES`; a text with
            other bytes, such as control characters, may have no encoding.
        find_merge: (left, right) -> (rank, merged token), or None if these two do not merge.
        merges: all merges.
        ignores_merges: a word that is a token becomes this token, regardless of the merges.
        splits: the steps that split a text into words; each splits the pieces of the previous one.
        added_tokens: bytes -> id of the tokens that are matched before the text is split.
        uses_nfc: the text is first converted to Unicode normal form C.
    """

    ids: Mapping[bytes, int]
    find_merge: Callable[[int, int], tuple[int, int] | None]
    merges: Callable[[], Iterator[Merge]]
    ignores_merges: bool
    splits: Sequence[Split]
    added_tokens: Mapping[bytes, int] = field(default_factory=dict)
    uses_nfc: bool = False

    def __post_init__(self) -> None:
        missing_bytes = [byte for byte in _REQUIRED_BYTES if bytes((byte,)) not in self.ids]
        if missing_bytes:
            raise _make_error(f"no token is the byte 0x{missing_bytes[0]:02X}, so most texts have no encoding")
        if (overlap := find_overlap(self.added_tokens)) is not None:
            raise _make_error(f"the added tokens {overlap[0]!r:.80} and {overlap[1]!r:.80} overlap")


def find_overlap(tokens: Iterable[bytes]) -> tuple[bytes, bytes] | None:
    """Find two tokens of which the second is a part of the first, or begins within the first and continues after it.
    None if there are no such tokens.

    How: each node of the tokens' trie leads to the node of its longest proper suffix (Aho and Corasick, 1975). Cost:
    linear in the bytes of the tokens.
    """
    trie = Trie()
    token_at = {trie.add(token): token for token in tokens}
    order, suffixes = trie.find_suffixes()
    token_below = dict(token_at)  # for each node, some token that begins with its text
    for node in reversed(order):
        token_below.setdefault(node, next((token_below[child] for child in trie.children[node].values()), b""))
    inner_tokens = [b""] * len(order)  # for each node, the longest token that its text ends with
    for node in order[1:]:
        token, suffix = token_at.get(node), suffixes[node]
        inner_tokens[node] = token or inner_tokens[suffix]
        if token is None and inner_tokens[node]:
            return token_below[node], inner_tokens[node]
        if token is not None and suffix:
            return token, token_below[suffix]
        if token is not None and trie.children[node]:
            return token_below[next(iter(trie.children[node].values()))], token
    return None


BytePairsFactory = Callable[[], BytePairs]


def _make_error(reason: str) -> UnsupportedError:
    return UnsupportedError(f"the canonical tokens of this tokenizer are unknown: {reason}", hint=HINT)


def no_byte_pairs(reason: str) -> BytePairsFactory:
    """A factory that raises UnsupportedError."""

    def raise_error() -> BytePairs:
        raise _make_error(reason)

    return raise_error


def build_pairs_from_ranks(ranks: Mapping[bytes, int], pattern: str | None, *, offset: int = 0) -> BytePairs:
    """The rules of a tiktoken-style tokenizer. A token's id is its rank plus `offset`.

    Raises:
        UnsupportedError: a byte is missing, or the pattern is unknown.
    """
    if pattern is None:
        raise _make_error("the pattern of its pre-tokenizer is unknown; pass from_tiktoken(pattern=...)")
    token_by_rank = {rank: token for token, rank in ranks.items()}

    def find_merge(left: int, right: int) -> tuple[int, int] | None:
        rank = ranks.get(token_by_rank[left - offset] + token_by_rank[right - offset])
        return None if rank is None else (rank, rank + offset)

    def iterate_merges() -> Iterator[Merge]:
        for token, rank in ranks.items():
            for split in range(1, len(token)):
                left, right = ranks.get(token[:split]), ranks.get(token[split:])
                if left is not None and right is not None:
                    yield Merge(left + offset, right + offset, rank, rank + offset)

    ids = {token: rank + offset for token, rank in ranks.items()}
    return BytePairs(ids, find_merge, iterate_merges, True, [Split(pattern, "rust")])


def build_pairs_from_merges(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    splits: Sequence[Split],
    ignores_merges: bool,
    added_tokens: Mapping[str, int],
) -> BytePairs:
    """The rules of a GPT-2-style tokenizer, from tokens in its byte alphabet and merges in rank order.

    Raises:
        UnsupportedError: a byte is missing, or added tokens overlap.
    """
    merges_by_pair: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, (left, right) in enumerate(merges):
        merges_by_pair[vocab[left], vocab[right]] = rank, vocab[left + right]
    ids = {data: id for name, id in vocab.items() if (data := from_byte_alphabet(name)) is not None}

    def iterate_merges() -> Iterator[Merge]:
        return (Merge(left, right, rank, merged) for (left, right), (rank, merged) in merges_by_pair.items())

    literals = {text.encode(): id for text, id in added_tokens.items()}
    return BytePairs(
        ids, lambda left, right: merges_by_pair.get((left, right)), iterate_merges, ignores_merges, splits, literals
    )


def build_pairs_from_huggingface(data: Mapping[str, Any], merges: Callable[[], Sequence[tuple[str, str]]]) -> BytePairs:
    """The rules of a tokenizer.json; `merges` returns its merges as pairs.

    Raises:
        UnsupportedError: a part of the file is not supported.
    """
    model, added_tokens = data["model"], data.get("added_tokens") or []
    if (model.get("type") or "BPE") != "BPE" or model.get("byte_fallback"):
        raise _make_error(f"its model is {brief(model.get('type') or 'BPE with byte fallback')}, not BPE over bytes")
    if model.get("dropout"):
        raise _make_error("its merges are dropped at random")
    normalizer = (data.get("normalizer") or {}).get("type")
    if normalizer not in (None, "NFC"):
        raise _make_error(f"its normalizer {normalizer!r} changes the text")
    literals = {}
    for entry in added_tokens:
        if entry.get("special"):
            continue
        if flags := [name for name in ("single_word", "lstrip", "rstrip") if entry.get(name)]:
            raise _make_error(f"its added token {brief(entry['content'], 40)} has the flag {flags[0]}")
        literals[entry["content"]] = entry["id"]
    alphabet = set(byte_alphabet())
    vocab = {name: id for name, id in model["vocab"].items() if alphabet.issuperset(name)}
    pairs = build_pairs_from_merges(
        vocab,
        merges(),
        splits=_read_splits(data.get("pre_tokenizer")),
        ignores_merges=bool(model.get("ignore_merges")),
        added_tokens=literals,
    )
    return replace(pairs, uses_nfc=normalizer == "NFC")


def _read_splits(step: Mapping[str, Any] | None) -> list[Split]:
    """The splits of a pre-tokenizer. Its last step must map bytes to GPT-2's alphabet."""
    steps = _flatten_steps(step)
    if not steps or steps[-1]["type"] != "ByteLevel":
        raise _make_error("its pre-tokenizer does not end with ByteLevel")
    out = [split for step in steps[:-1] for split in _read_split(step)]
    if steps[-1].get("use_regex", True):
        out += [Split(pattern, "oniguruma") for pattern in PATTERNS["gpt2"]]
    return out


def _flatten_steps(step: Mapping[str, Any] | None, depth: int = 0) -> list[Mapping[str, Any]]:
    if step is None or depth > 8:
        return []
    if step["type"] == "Sequence":
        return [each for child in step["pretokenizers"] for each in _flatten_steps(child, depth + 1)]
    return [step]


def _read_split(step: Mapping[str, Any]) -> list[Split]:
    kind = step["type"]
    if kind == "Digits":
        return [Split(r"\p{N}" if step.get("individual_digits") else r"\p{N}+", "oniguruma")]
    if kind == "Split" and isinstance(pattern := step["pattern"].get("Regex"), str):
        if step["behavior"] == "Isolated":
            return [Split(pattern, "oniguruma")]
        if step["behavior"] == "Removed" and step.get("invert"):
            return [Split(pattern, "oniguruma", must_cover=True)]
    raise _make_error(f"the step {brief(dict(step), 80)} of its pre-tokenizer is not supported")
