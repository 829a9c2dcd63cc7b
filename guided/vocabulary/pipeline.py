"""Hugging Face's way from text to ids, as a tokenizer.json describes it.

In: the JSON and its vocabulary (piece -> id). Out: an encoder that does the same steps: take out added tokens that are
not special, normalise, pre-tokenise, then BPE or Unigram on each piece, with byte fallback.
Source: https://github.com/huggingface/tokenizers. What is not followed exactly (lower-casing, pre-tokenizers that drop
characters, dropout, ...) makes `encode` refuse with the reason; the tokens themselves stay usable.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from guided.errors import VocabularyError, brief
from guided.vocabulary.bpe import added_pattern, byte_alphabet, join, pair_ranks, spelled, split_added
from guided.vocabulary.pieces import UNKNOWN_PENALTY, viterbi
from guided.vocabulary.pretokenize import PATTERNS, Splitter
from guided.vocabulary.source import EncoderFactory

__all__ = ["PipelineEncoder", "encoder_factory", "flattened"]

_REMEMBERED = 65_536
_REMEMBERED_LENGTH = 256
_MAX_NESTING = 8
_FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")

# A normalizer changes a text and a pre-tokenizer cuts a piece. Some put a space before it: always, or only where it
# begins the text (FIRST); never where the text goes on after other text (CONTINUED).
FIRST, LATER, CONTINUED = range(3)
Normalizer: TypeAlias = Callable[[str, int], str]
PreTokenizer: TypeAlias = Callable[[str, int], Iterable[str]]


def flattened(item: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """The steps of a possibly nested "Sequence", in order."""
    steps, levels = [item] if item else [], 0
    while any(step["type"] == "Sequence" for step in steps):
        levels += 1
        if levels > _MAX_NESTING:
            raise VocabularyError(f"sequences nest deeper than {_MAX_NESTING}")
        steps = [part for step in steps for part in (step[inner] if step["type"] == "Sequence" else [step])]
    return steps


def encoder_factory(data: dict[str, Any], vocab: Mapping[str, int]) -> EncoderFactory:
    """Makes the encoder when it is first needed."""

    def build() -> PipelineEncoder:
        try:
            return PipelineEncoder(data, vocab)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise VocabularyError(f"the tokenizer's steps cannot be read: {type(error).__name__} {error}") from None

    return build


class PipelineEncoder:
    """Encodes text as the `tokenizers` package does."""

    def __init__(self, data: dict[str, Any], vocab: Mapping[str, int]) -> None:
        model = data["model"]
        self.vocab = vocab
        self._normalizers = [_normalizer(step) for step in flattened(data.get("normalizer"), "normalizers")]
        self._cutters = [_pre_tokenizer(step) for step in flattened(data.get("pre_tokenizer"), "pretokenizers")]
        self._byte_fallback = bool(model.get("byte_fallback"))
        self._split: Callable[[str], list[str]] = self._bpe(model) if "merges" in model else self._unigram(model)
        raw: dict[str, int] = {}
        normal: dict[str, int] = {}
        for entry in data.get("added_tokens") or []:
            if entry.get("special"):
                continue
            for flag in ("single_word", "lstrip", "rstrip"):
                if entry.get(flag):
                    raise _refused(f"the added token {brief(entry['content'])} has {flag}")
            (normal if entry.get("normalized") else raw)[entry["content"]] = entry["id"]
        self._raw_added, self._raw_pattern = raw, added_pattern(raw)
        self._added = {self._normalized(content, CONTINUED): number for content, number in normal.items()}
        self._pattern = added_pattern(self._added)
        self._remembered: dict[str, list[int]] = {}

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        text.encode("utf-8")  # a lone surrogate is an error
        out: list[int] = []
        place = CONTINUED if continued else FIRST
        for part, added in split_added(text, self._raw_pattern):
            if added:
                out.append(self._raw_added[part])
            else:
                out += self._part(part, place)
            place = max(place, LATER)
        return out

    def _part(self, text: str, place: int) -> list[int]:
        out: list[int] = []
        for part, added in split_added(self._normalized(text, place), self._pattern):
            if added:
                out.append(self._added[part])
            else:
                pieces = [(part, place)]
                for cut in self._cutters:
                    pieces = [
                        (piece, max(where, LATER) if index else where)
                        for whole, where in pieces
                        for index, piece in enumerate(cut(whole, where))
                    ]
                for piece, _ in pieces:
                    out += self._piece(piece)
            place = max(place, LATER)
        return out

    def _normalized(self, text: str, place: int) -> str:
        for change in self._normalizers:
            text = change(text, place)
        return text

    def _piece(self, piece: str) -> list[int]:
        if len(piece) > _REMEMBERED_LENGTH:
            return self._ids(piece)
        found = self._remembered.get(piece)
        if found is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            found = self._remembered[piece] = self._ids(piece)
        return found

    def _ids(self, piece: str) -> list[int]:
        out: list[int] = []
        for symbol in self._split(piece):
            number = self.vocab.get(symbol)
            if number is not None:
                out.append(number)
                continue
            data = symbol.encode("utf-8")
            spellings = [self.vocab.get(f"<0x{byte:02X}>") if self._byte_fallback else None for byte in data]
            known = [number for number in spellings if number is not None]
            if len(known) < len(data):
                raise VocabularyError(f"no token of this vocabulary spells {symbol[:40]!r} ({spelled(data)})")
            out += known
        return out

    def _bpe(self, model: dict[str, Any]) -> Callable[[str], list[str]]:
        if model.get("dropout"):
            raise _refused("its merges are dropped at random")
        ranks, vocab = pair_ranks(model["merges"]), self.vocab
        whole_first = bool(model.get("ignore_merges"))

        def split(piece: str) -> list[str]:
            if whole_first and piece in vocab:
                return [piece]
            return join(piece, lambda left, right: ranks.get((left, right)))

        return split

    def _unigram(self, model: dict[str, Any]) -> Callable[[str], list[str]]:
        scores = {piece: float(score) for piece, score in reversed(model["vocab"])}
        unknown = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
        longest = max(map(len, scores), default=0)
        return lambda piece: viterbi(piece, scores, unknown, longest, single_precision=False)


def _refused(reason: str) -> VocabularyError:
    return VocabularyError(f"text cannot be encoded exactly as this tokenizer does: {reason}")


def _normalizer(step: dict[str, Any]) -> Normalizer:
    kind = step["type"]
    if kind in _FORMS:
        return lambda text, place: unicodedata.normalize(kind, text)
    if kind == "Prepend":
        prefix = str(step["prepend"])
        return lambda text, place: prefix + text if text and place != CONTINUED else text
    if kind == "Replace" and isinstance(step["pattern"].get("String"), str) and step["pattern"]["String"]:
        old, new = step["pattern"]["String"], str(step["content"])
        return lambda text, place: text.replace(old, new)
    raise _refused(f"the normalizer {kind} is not followed")


def _pre_tokenizer(step: dict[str, Any]) -> PreTokenizer:
    kind = step["type"]
    if kind == "ByteLevel":
        return _byte_level(bool(step.get("add_prefix_space", True)), bool(step.get("use_regex", True)))
    if kind == "Digits":
        splitter = Splitter(r"\p{N}" if step.get("individual_digits") else r"\p{N}+")
        return lambda piece, place: splitter.split(piece)
    if kind == "Split":
        return _split(step)
    if kind == "Metaspace":
        return _metaspace(step)
    raise _refused(f"the pre-tokenizer {kind} is not followed")


def _byte_level(prefix_space: bool, use_regex: bool) -> PreTokenizer:
    splitter = Splitter(PATTERNS["gpt2"][0]) if use_regex else None
    alphabet = byte_alphabet()

    def cut(piece: str, place: int) -> list[str]:
        if prefix_space and place != CONTINUED and not piece.startswith(" "):
            piece = " " + piece
        parts = splitter.split(piece) if splitter else [piece]
        return ["".join([alphabet[byte] for byte in part.encode("utf-8")]) for part in parts]

    return cut


def _split(step: dict[str, Any]) -> PreTokenizer:
    pattern, behavior, invert = step["pattern"], step["behavior"], bool(step.get("invert"))
    if behavior not in ("Isolated", "MergedWithPrevious", "MergedWithNext"):
        raise _refused(f"a Split that is {behavior}")
    if "Regex" in pattern:
        splitter = Splitter(pattern["Regex"], dialect="oniguruma")
    else:
        splitter = Splitter("".join(f"\\u{{{ord(char):X}}}" for char in pattern["String"]))
    return lambda piece, place: splitter.merged(piece, behavior, invert)


def _metaspace(step: dict[str, Any]) -> PreTokenizer:
    mark, cuts = step["replacement"], step.get("split", True)
    scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
    if scheme not in ("always", "first", "never") or not isinstance(mark, str) or len(mark) != 1:
        raise _refused(f"the Metaspace scheme {brief(scheme, 40)}")

    places = {"always": (FIRST, LATER), "first": (FIRST,), "never": ()}[scheme]

    def cut(piece: str, place: int) -> list[str]:
        piece = piece.replace(" ", mark)
        if not piece.startswith(mark) and place in places:
            piece = mark + piece
        if not cuts:
            return [piece]
        first, *rest = piece.split(mark)
        return ([first] if first else []) + [mark + part for part in rest]

    return cut
