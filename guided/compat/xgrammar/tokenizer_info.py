"""`TokenizerInfo`: a tokenizer's tokens, as in xgrammar. It is converted to a `guided.Vocabulary`.

As in xgrammar, every token stands for the text that it spells, even if it is a control token: if a grammar contains the
text `<tool_call>`, the output may contain the token of that name, or other tokens with this text. Padding and tokens
without text are never allowed.

A vocabulary that cannot spell all printable ASCII characters, such as the short lists in tests, gets hidden ids for all
bytes. So a matcher accepts text even if no tokens can spell it, as in xgrammar. Hidden ids come after `vocab_size` and
do not appear in masks.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final

from guided.compat.xgrammar.base import XGRObject
from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, as_xgrammar
from guided.compat.xgrammar.jump_forward import TokenTexts
from guided.compat.xgrammar.serialized import load_serialized
from guided.compat.xgrammar.vocab_type import (
    STOP_TOKENS,
    VocabType,
    decode_token,
    detect_from_vocab,
    detect_metadata,
    encodes_with_prefix,
)
from guided.errors import brief
from guided.vocabulary import Vocabulary

__all__ = ["TokenizerInfo", "VocabType"]

_XGRAMMAR_VERSIONS: Final = ("v16", "v18")
"""The versions of xgrammar's format in which a TokenizerInfo has the same content as here."""
_MAX_SIZE: Final = 4_000_000
"""The maximum `vocab_size`, several times that of any model: each id takes time and memory."""
_PRINTABLE: Final = frozenset(range(0x20, 0x7F))
_BYTES: Final = tuple(bytes((byte,)) for byte in range(256))


class TokenizerInfo(XGRObject):
    """The tokens of a model.

    Args:
        encoded_vocab: the tokens as the tokenizer spells them, with "" for an id without text.
        vocab_type: how the tokens are spelled.
        vocab_size: the number of logits, if there are more logits than tokens.
        stop_token_ids: the tokens that end an output; None means the tokens with a well-known name (`STOP_TOKENS`).
        add_prefix_space: whether the tokenizer puts a space before a text; it is only stored.

    Raises:
        RuntimeError: `vocab_size` is less than the number of tokens or more than 4,000,000, or a stop token is not less
            than `vocab_size`.
    """

    def __init__(
        self,
        encoded_vocab: list[bytes] | list[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: list[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        tokens = tuple(decode_token(token, vocab_type) for token in encoded_vocab)
        self._init_handle(_Tokens(tokens, vocab_type, vocab_size, _as_id_list(stop_token_ids), add_prefix_space))

    @staticmethod
    def from_huggingface(
        tokenizer: Any,
        *,
        vocab_size: int | None = None,
        stop_token_ids: list[int] | int | None = None,
    ) -> TokenizerInfo:
        """Read a transformers tokenizer: a fast one, or one that wraps tiktoken or SentencePiece.

        Args:
            vocab_size: the number of the model's logits; None means the largest id plus 1. Larger ids are left out.
            stop_token_ids: None means the tokenizer's `eos_token_id`, or if it has none, the tokens with a well-known
                name.

        Raises:
            ValueError: the tokenizer has no vocabulary or is not supported, or `stop_token_ids` is empty.
            RuntimeError: see the constructor.
        """
        stops = _as_id_list(stop_token_ids)
        if stops == []:
            raise ValueError("stop_token_ids cannot be empty")
        try:
            vocab: Mapping[str, int] = tokenizer.get_vocab()
        except AttributeError:
            raise ValueError(
                f"Cannot get the vocabulary of the tokenizer {type(tokenizer)}. The tokenizer should have a get_vocab "
                "method."
            ) from None
        size = vocab_size or max(len(vocab), max(vocab.values()) + 1)
        _check_size(size, len(vocab))
        spellings = [""] * size
        for token, number in vocab.items():
            if number < size:
                spellings[number] = token
        kind, adds_space = _detect_spelling(tokenizer, vocab)
        if stops is None:
            stops = _find_declared_stops(tokenizer)
        return TokenizerInfo(spellings, kind, vocab_size=size, stop_token_ids=stops, add_prefix_space=adds_space)

    @property
    def vocab_type(self) -> VocabType:
        """How tokens are spelled."""
        return self._tokens.kind

    @property
    def vocab_size(self) -> int:
        """The number of logits."""
        return self._tokens.size

    @property
    def add_prefix_space(self) -> bool:
        """Whether the tokenizer puts a space before a text."""
        return self._tokens.add_prefix_space

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """Deprecated: use `add_prefix_space`."""
        warnings.warn("prepend_space_in_tokenization is deprecated. Use add_prefix_space instead.", stacklevel=2)
        return self.add_prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of each token."""
        return list(self._tokens.tokens)

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end an output."""
        return list(self._tokens.stops)

    @property
    def special_token_ids(self) -> list[int]:
        """The ids without text, including padding, except stop tokens."""
        return list(self._tokens.special_ids)

    def dump_metadata(self) -> str:
        """The metadata (everything except the tokens), as JSON."""
        return json.dumps(self._tokens.metadata(), separators=(",", ":"))

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: list[bytes | str], metadata: str) -> TokenizerInfo:
        """Create an instance from the tokens and the result of `dump_metadata`. RuntimeError: the metadata is
        malformed."""
        try:
            data = json.loads(metadata)
            kind = VocabType(data["vocab_type"])
            size, adds_space, stops = data["vocab_size"], data["add_prefix_space"], data["stop_token_ids"]
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"Failed to parse metadata: {error}") from None
        except (KeyError, TypeError) as error:
            raise RuntimeError(f"Missing or invalid in metadata: {error}") from None
        return TokenizerInfo(encoded_vocab, kind, vocab_size=size, stop_token_ids=stops, add_prefix_space=adds_space)  # type: ignore[arg-type]

    @staticmethod
    def _detect_metadata_from_hf(backend_str: str) -> dict[str, Any]:
        return detect_metadata(backend_str)

    @staticmethod
    def _detect_vocab_type_from_vocab(vocab_dict: dict[str, int]) -> VocabType | None:
        return detect_from_vocab(vocab_dict)

    def serialize_json(self) -> str:
        """All data as JSON, with xgrammar's keys. Bytes are written as the characters U+0000 to U+00FF."""
        return json.dumps(self._tokens.to_json(), separators=(",", ":"))

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """Read a string that `serialize_json` wrote, or that xgrammar wrote (versions v16 and v18).

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: see `exception.py`.
        """
        data = load_serialized(json_string, "TokenizerInfo", accepted_versions=_XGRAMMAR_VERSIONS)
        try:
            tokens = tuple(token.encode("latin-1") for token in data["decoded_vocab"])
            kind, size, stops = VocabType(data["vocab_type"]), data["vocab_size"], data["stop_token_ids"]
            handle = _Tokens(tokens, kind, size, stops, bool(data["add_prefix_space"]))
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise DeserializeFormatError(f"this is not a TokenizerInfo: {type(error).__name__} {error}") from None
        for key, value in handle.to_json().items():
            if key != "__VERSION__" and not _is_same(data.get(key), value):
                raise DeserializeFormatError(f'"{key}" does not match the tokens, so the text has been changed')
        return TokenizerInfo._create_from_handle(handle)

    @property
    def _tokens(self) -> _Tokens:
        tokens: _Tokens = self._handle
        return tokens


class _Tokens:
    """The data of a TokenizerInfo, and guided's vocabularies for it, one for each set of stop tokens.

    Attributes:
        tokens: the bytes of each id, which are empty for an id without text.
        stops: the stop tokens, in ascending order.
        special_ids: the ids without text, except stop tokens.
        hidden_count: the number of hidden ids after `size`.
    """

    def __init__(
        self,
        tokens: tuple[bytes, ...],
        kind: VocabType,
        size: int | None,
        stops: Sequence[int] | None,
        add_prefix_space: bool,
    ) -> None:
        self.tokens, self.kind, self.add_prefix_space = tokens, kind, add_prefix_space
        self.size = len(tokens) if size is None else size
        if not isinstance(self.size, int) or self.size < len(tokens):
            raise RuntimeError(
                f"vocab_size ({brief(self.size)}) must be at least the number of tokens in the vocab ({len(tokens)})."
            )
        _check_size(self.size, len(tokens))
        if stops is None:
            stops = [number for number, data in enumerate(tokens) if data in STOP_TOKENS]
        self.stops = self.check_stops(stops)
        stop_set = frozenset(self.stops)
        ids_without_text = (number for number, data in enumerate(tokens) if not data)
        self.special_ids = tuple(
            number for number in chain(ids_without_text, range(len(tokens), self.size)) if number not in stop_set
        )
        self.hidden_count = 0 if {data[0] for data in tokens if len(data) == 1} >= _PRINTABLE else len(_BYTES)
        self._vocabularies: dict[tuple[tuple[int, ...], frozenset[str], frozenset[int]], Vocabulary] = {}
        self._lock = threading.Lock()

    @cached_property
    def texts(self) -> TokenTexts:
        """The texts of the tokens, for finding the longest one."""
        return TokenTexts(self.tokens)

    def check_stops(self, stops: Sequence[int]) -> tuple[int, ...]:
        """Check that the stop tokens are ids of this vocabulary, and return them in ascending order."""
        for number in stops:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < self.size:
                raise RuntimeError(f"the stop token {brief(number)} is not a token id from 0 to {self.size - 1}")
        return tuple(sorted(set(stops)))

    def metadata(self) -> dict[str, Any]:
        """The data of `dump_metadata`."""
        return {
            "vocab_type": self.kind.value,
            "vocab_size": self.size,
            "add_prefix_space": self.add_prefix_space,
            "stop_token_ids": list(self.stops),
        }

    def to_json(self) -> dict[str, Any]:
        """The data of `serialize_json`."""
        stop_set = frozenset(self.stops)
        sorted_tokens = sorted(
            (data, number) for number, data in enumerate(self.tokens) if data and number not in stop_set
        )
        return {
            **self.metadata(),
            "special_token_ids": list(self.special_ids),
            "decoded_vocab": [data.decode("latin-1") for data in self.tokens],
            "sorted_decoded_vocab": [[number, data.decode("latin-1")] for data, number in sorted_tokens],
            "trie_subtree_nodes_range": _subtree_ends([data for data, _ in sorted_tokens]),
            "__VERSION__": SERIALIZATION_VERSION,
        }

    def get_vocabulary(
        self,
        stops: tuple[int, ...] | None = None,
        control_names: frozenset[str] = frozenset(),
        named_stops: frozenset[int] = frozenset(),
    ) -> Vocabulary:
        """The vocabulary with other stop tokens (None: `self.stops`). The same arguments return the same object.

        Args:
            control_names: the names of the tokens that are control tokens and do not stand for their text.
            named_stops: the stop tokens that the grammar names. They are control tokens, and do not end an output. If
                there are any, the last id of the vocabulary is a hidden end token.
        """
        stop_ids = self.stops if stops is None else stops
        with self._lock:
            key = stop_ids, control_names, named_stops
            if key not in self._vocabularies:
                names_by_id = {
                    number: name for name in control_names for number in self.ids_of(name) if number not in stop_ids
                }
                names_by_id |= {number: f"<stop token {number}>" for number in named_stops}
                without_text = dict.fromkeys((*self.stops, *names_by_id))
                token_bytes = [without_text.get(number, data) or None for number, data in enumerate(self.tokens)]
                if self.hidden_count:
                    token_bytes += [None] * (self.size - len(token_bytes)) + list(_BYTES)
                with as_xgrammar():
                    size = self.size + self.hidden_count + bool(named_stops)
                    end_ids = [number for number in stop_ids if number not in named_stops]
                    end_ids += [size - 1] if named_stops else []
                    if end_ids:
                        vocabulary = Vocabulary(
                            token_bytes, eos_token_ids=end_ids, special_tokens=names_by_id, size=size
                        )
                    else:
                        vocabulary = Vocabulary.without_end(token_bytes, special_tokens=names_by_id, size=size)
                self._vocabularies[key] = vocabulary
            return self._vocabularies[key]

    def ids_of(self, name: str) -> list[int]:
        """The tokens whose text is `name`."""
        data = name.encode()
        return [number for number, token in enumerate(self.tokens) if token == data]


def _as_id_list(ids: list[int] | int | None) -> list[int] | None:
    return [ids] if isinstance(ids, int) else ids if ids is None else list(ids)


def _is_same(stored_value: Any, value: Any) -> bool:
    """Whether a stored value equals `value`. Tokens with the same text may be in a different order."""
    if (
        stored_value != value
        and isinstance(stored_value, list)
        and isinstance(value, list)
        and all(isinstance(x, list) for x in stored_value)
    ):
        return sorted(map(repr, stored_value)) == sorted(map(repr, value))
    return bool(stored_value == value)


def _subtree_ends(sorted_tokens: Sequence[bytes]) -> list[int]:
    """For each token of the sorted list, the index of the next token that does not contain it, as in xgrammar."""
    out, open_tokens = [0] * len(sorted_tokens), list[int]()
    for index, data in enumerate(sorted_tokens):
        while open_tokens and sorted_tokens[open_tokens[-1]] not in data:
            out[open_tokens.pop()] = index
        open_tokens.append(index)
    for index in open_tokens:
        out[index] = len(sorted_tokens)
    return out


def _find_declared_stops(tokenizer: Any) -> list[int] | None:
    """Find the stop token that a tokenizer declares."""
    stop_id = getattr(tokenizer, "eos_token_id", None)
    if stop_id is None:
        model = _find_sentencepiece_model(tokenizer)
        stop_id = model.eos_id() if model is not None and model.eos_id() != -1 else None
    if stop_id is None:
        warnings.warn(
            "When constructing TokenizerInfo from a huggingface tokenizer, stop_token_ids is neither provided by user "
            "nor found from the tokenizer. It will be automatically detected.",
            stacklevel=3,
        )
        return None
    return [stop_id]


def _check_size(size: int, token_count: int) -> None:
    """Raise RuntimeError if there are too many ids for a vocabulary of this many tokens."""
    if size > max(_MAX_SIZE, token_count):
        raise RuntimeError(f"vocab_size must be at most {_MAX_SIZE}, not {brief(size)}")


def _detect_spelling(tokenizer: Any, vocab: Mapping[str, int]) -> tuple[VocabType, bool]:
    """Detect how the tokens are spelled, and whether the tokenizer puts a space before a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "to_str"):  # a fast tokenizer
        metadata = detect_metadata(backend.to_str())
        kind, adds_space = metadata["vocab_type"], metadata["add_prefix_space"]
        vocab_kind = detect_from_vocab(vocab)
        return (
            (kind, adds_space)
            if vocab_kind in (None, kind)
            else (vocab_kind, encodes_with_prefix(tokenizer, vocab_kind))
        )
    names = getattr(tokenizer, "vocab_files_names", {})
    inner_class = type(getattr(tokenizer, "tokenizer", None))
    if (inner_class.__module__.split(".")[0], inner_class.__name__) == (
        "tiktoken",
        "Encoding",
    ) or "tiktoken" in names.get("vocab_file", ""):
        first_tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode(" "))[:1]
        return (VocabType.BYTE_LEVEL if first_tokens == ["Ġ"] else VocabType.RAW), False
    if _find_sentencepiece_model(tokenizer) is not None:
        return (VocabType.BYTE_FALLBACK if "<0x0A>" in vocab else VocabType.RAW), True
    raise ValueError(f"Unsupported tokenizer type: {type(tokenizer)}")


def _find_sentencepiece_model(tokenizer: Any) -> Any:
    """Find the SentencePiece model inside a tokenizer, or None."""
    inner_tokenizer = getattr(tokenizer, "tokenizer", None)
    owners = ((tokenizer, "sp_model"), (inner_tokenizer, "sp_model"), (tokenizer, "tok"))
    candidates = [getattr(owner, name, None) for owner, name in owners]
    return next((candidate for candidate in candidates if type(candidate).__name__ == "SentencePieceProcessor"), None)
