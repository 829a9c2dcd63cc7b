"""`Vocabulary`: the bytes of each token id.

In: a list of byte strings, or a tokenizer (GGUF, Hugging Face, tiktoken, SentencePiece, tekken, characters). Out:
`size`, `tokens`, `eos_token_ids`, `special_tokens`, and `encode` and `decode`.

`tokens` has None for an id without text: holes, padding, end tokens and special tokens. `special_tokens` names the
special tokens. A grammar refers to them by name, never by the bytes of their name. Two ids may spell the same bytes.
Immutable; may be shared between threads. Encoding tables are built when text is first encoded.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import index
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from guided.errors import ModelFileError, VocabularyError, brief
from guided.keywords import check_path, read_items
from guided.vocabulary.byte_pairs import BytePairs, BytePairsFactory, no_byte_pairs
from guided.vocabulary.plain import BoundedEncoder, CharacterEncoder, ShortestEncoder, first_base_token
from guided.vocabulary.source import (
    MAX_SIZE,
    MAX_TOKEN_BYTES,
    MAX_TOTAL_BYTES,
    Encoder,
    EncoderFactory,
    Source,
    check_ids,
)

if TYPE_CHECKING:
    from typing import NoReturn, Self

    from guided.files.gguf import GgufFile

__all__ = ["Vocabulary"]

_NO_SPECIAL_TOKENS: Mapping[int, str] = MappingProxyType({})


class Vocabulary:
    """Token id -> bytes.

    Args:
        tokens: the bytes of each id; None for an id without text. A token has at most 65,535 bytes, and all tokens
            together at most 16 MiB.
        eos_token_ids: the ids that end an output, at least one. They may lie beyond `tokens`. Their bytes in `tokens`,
            if any, are ignored. Programs that end outputs themselves use `Vocabulary.without_end`.
        special_tokens: id -> name of control tokens. Their bytes are ignored, too.
        size: the number of logits, if the model's head is padded past the largest id.

    Attributes:
        tokens: as given, with None for every id that has no text.
        size: one more than the largest id, or the given `size` if that is larger. Ids from `len(tokens)` on have no
            text.
        eos_token_ids: the end ids.
        special_tokens: id -> name.
        text_markers: text tokens that the tokenizer matches before anything else, such as `<think>`.

    Raises:
        VocabularyError: a token is not bytes, empty or too long, no id ends an output, an id is out of range, or `size`
            does not cover the largest id.
    """

    __slots__ = (
        "__weakref__",
        "_encoder",
        "_factory",
        "_pairs_factory",
        "_special_encoder",
        "_special_factory",
        "eos_token_ids",
        "size",
        "special_tokens",
        "text_markers",
        "tokens",
    )

    tokens: tuple[bytes | None, ...]
    eos_token_ids: frozenset[int]
    special_tokens: Mapping[int, str]
    size: int
    text_markers: tuple[str, ...]

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        *,
        eos_token_ids: Collection[int],
        special_tokens: Mapping[int, str] = _NO_SPECIAL_TOKENS,
        size: int | None = None,
    ) -> None:
        end_ids = frozenset(check_ids(eos_token_ids, "eos_token_ids"))
        if not end_ids:
            raise VocabularyError(
                "eos_token_ids is empty: name the ids that end an output, or write Vocabulary.without_end(tokens) if "
                "your program ends outputs itself"
            )
        self._set_fields(tokens, end_ids, special_tokens, size)

    @classmethod
    def without_end(
        cls,
        tokens: Sequence[bytes | None],
        *,
        special_tokens: Mapping[int, str] = _NO_SPECIAL_TOKENS,
        size: int | None = None,
    ) -> Self:
        """A vocabulary in which no token ends an output: the program ends it when `matcher.is_accepting()`.

        Raises:
            VocabularyError: as for the constructor, and if there are no tokens.
        """
        out = cls.__new__(cls)
        out._set_fields(tokens, frozenset(), special_tokens, size)
        return out

    @property
    def end_names(self) -> frozenset[str]:
        """The names of the special tokens that end an output."""
        return frozenset(name for token, name in self.special_tokens.items() if token in self.eos_token_ids)

    def _set_fields(
        self,
        tokens: Sequence[bytes | None],
        end_ids: frozenset[int],
        special_tokens: Mapping[int, str],
        size: int | None,
    ) -> None:
        self.eos_token_ids = end_ids
        names = _check_names(special_tokens)
        self.special_tokens = MappingProxyType(names)
        self.tokens = _check_tokens(tokens, self.eos_token_ids.union(names))
        min_size = max(len(self.tokens), max(self.eos_token_ids, default=-1) + 1, max(names, default=-1) + 1)
        self.size = min_size if size is None else _check_size(size)
        if not min_size <= self.size <= MAX_SIZE:
            raise VocabularyError(f"size {self.size} does not cover the ids: it must be from {min_size} to {MAX_SIZE}")
        if self.size == 0:
            raise VocabularyError("the vocabulary has no tokens: give the bytes of each id")
        self.text_markers = ()
        # A closure, not a method: `copy_with` passes it to vocabularies with other end tokens.
        self._factory: EncoderFactory = lambda: ShortestEncoder(self.tokens)
        self._encoder: Encoder | None = None
        self._pairs_factory: BytePairsFactory = no_byte_pairs("the vocabulary is a list of tokens")
        self._special_factory: EncoderFactory | None = None
        self._special_encoder: Encoder | None = None

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, eos_token_ids={sorted(self.eos_token_ids)})"

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Vocabulary cannot be pickled: another process must read the tokenizer itself")

    def token_bytes(self, id: int) -> bytes | None:
        """The bytes of a token, or None if it has no text. Raises VocabularyError if `id` is negative or too large."""
        try:
            is_id = 0 <= index(id) < self.size
        except TypeError:
            raise TypeError(f"a token id is an integer, not {brief(id)}") from None
        if not is_id:
            raise VocabularyError(f"{id} is not a token id of this vocabulary (0 to {self.size - 1})")
        return self.tokens[id] if id < len(self.tokens) else None

    def encode(self, text: str, *, continued: bool = False) -> list[int]:
        """The tokenizer's ids for `text`, without begin or end tokens.

        Names of special tokens in `text` are ordinary text. Some tokenizers (SentencePiece) add a space before the
        text, so the ids decode to one more byte. With `continued`, the text continues other text, and no space is
        added. A vocabulary created from a list of tokens uses the fewest tokens.

        Raises:
            VocabularyError: no tokens spell a character, the tokenizer's encoding is unknown, or the package that
                encodes for it (tokenizers, tiktoken or sentencepiece) is not installed.
        """
        _check_text(text)
        if self._encoder is None:
            self._encoder = self._factory()
        return self._encoder.encode(text, continued)

    def encode_with_special(self, text: str) -> list[int]:
        """Like `encode`, but names of special tokens in `text` become those tokens, as rendered chat templates require.

        Hugging Face tokenizers do this themselves (their tokens may strip adjacent whitespace). For other tokenizers,
        the text is split at the names, longest first, and each piece is encoded separately.

        Raises:
            VocabularyError: as for `encode`.
        """
        _check_text(text)
        if self._special_factory is not None:
            if self._special_encoder is None:
                self._special_encoder = self._special_factory()
            return self._special_encoder.encode(text)
        ids: dict[str, int] = {}
        for number in sorted(self.special_tokens):
            ids.setdefault(self.special_tokens[number], number)
        names = sorted(filter(None, ids), key=len, reverse=True)
        pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
        out: list[int] = []
        for piece_index, piece in enumerate(pieces):  # the text between two names, a name, and so on
            if piece:
                out += [ids[piece]] if piece_index % 2 else self.encode(piece)
        return out

    def byte_pairs(self) -> BytePairs:
        """The tokenizer's rules: merges and patterns. Created anew at each call.

        Raises:
            UnsupportedError: the tokenizer is not byte-level BPE, or has an unknown part.
        """
        return self._pairs_factory()

    def decode(self, ids: Iterable[int]) -> bytes:
        """The concatenated bytes of the tokens; ids without text add nothing."""
        numbers = read_items("ids", ids, max_items=MAX_SIZE, error=VocabularyError)
        return b"".join(self.token_bytes(number) or b"" for number in numbers)

    @classmethod
    def from_gguf(
        cls,
        path: str | PathLike[str] | GgufFile,
        *,
        eos_token_ids: Collection[int] | None = None,
        size: int | None = None,
    ) -> Self:
        """The tokenizer of a GGUF file (models "gpt2" and "llama"). An open `GgufFile` is not read twice.

        End tokens are the ones that the file declares, and control tokens with a known end name.
        """
        from guided.vocabulary.gguf_tokenizer import read_gguf

        return cls._from_reader(lambda: read_gguf(path), eos_token_ids, size)

    @classmethod
    def from_huggingface(
        cls, tokenizer: Any, *, eos_token_ids: Collection[int] | None = None, size: int | None = None
    ) -> Self:
        """A fast tokenizer of transformers, a `tokenizers.Tokenizer`, the path of a tokenizer.json, or "org/model".

        End tokens are the ones that the tokenizer declares; for a path, also those of tokenizer_config.json and of
        generation_config.json (else config.json). If there are none: special tokens with a known end name.
        """
        from guided.vocabulary.huggingface import read_huggingface

        return cls._from_reader(lambda: read_huggingface(tokenizer), eos_token_ids, size)

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,
        *,
        eos_token_ids: Collection[int] | None = None,
        special_tokens: Mapping[int, str] | Mapping[str, int] | None = None,
        pattern: str | None = None,
        size: int | None = None,
    ) -> Self:
        """A `tiktoken.Encoding`, or the path of a ranks file (base64 bytes and rank, one per line).

        A ranks file specifies neither end tokens nor special tokens nor a pre-tokenizer. `special_tokens` maps ids to
        names, or names to ids as in tiktoken. `pattern` is one of the names "gpt2", "cl100k", "o200k", "llama3",
        "qwen2", "tekken", or the regex itself. Without a pattern, `encode` merges across the whole text. The ids still
        decode to the text, but may differ from those of the model's own tokenizer.
        """
        from guided.vocabulary.tiktoken import read_tiktoken

        return cls._from_reader(lambda: read_tiktoken(encoding, special_tokens, pattern), eos_token_ids, size)

    @classmethod
    def from_sentencepiece(
        cls, path: str | PathLike[str], *, eos_token_ids: Collection[int] | None = None, size: int | None = None
    ) -> Self:
        """A SentencePiece .model file: unigram, BPE, character or word."""
        from guided.vocabulary.sentencepiece import read_sentencepiece

        check_path("path", path, "the path of a SentencePiece .model file")
        return cls._from_reader(lambda: read_sentencepiece(path), eos_token_ids, size)

    @classmethod
    def from_tekken(
        cls, path: str | PathLike[str], *, eos_token_ids: Collection[int] | None = None, size: int | None = None
    ) -> Self:
        """Mistral's tekken.json."""
        from guided.vocabulary.tekken import read_tekken

        check_path("path", path, "the path of a tekken.json")
        return cls._from_reader(lambda: read_tekken(path), eos_token_ids, size)

    @classmethod
    def from_characters(cls, text: str, *, size: int | None = None) -> Self:
        """One id for each distinct character of `text`, in the order of code points, and one end id after them."""
        if not isinstance(text, str):
            raise TypeError(f"the characters are a str, not a {type(text).__name__}")
        chars = sorted(set(text))
        try:
            tokens = [char.encode("utf-8") for char in chars]
        except UnicodeEncodeError:
            raise VocabularyError("the text contains a lone surrogate, which UTF-8 cannot encode") from None
        ids = {char: number for number, char in enumerate(chars)}
        return cls._from_reader(lambda: Source(tokens, [len(chars)], encoder=lambda: CharacterEncoder(ids)), None, size)

    def copy_with(self, *, eos_token_ids: Collection[int] | None = None, size: int | None = None) -> Vocabulary:
        """The same tokenizer with other end tokens or another number of logits. None: no change.

        Tokens beyond the logits are left out. If these are added tokens, a text that contains one cannot be encoded.
        Otherwise, all text is then encoded with the fewest tokens.

        Raises:
            VocabularyError: as for the constructor, and for an end token beyond the logits.
        """
        end_ids = self.eos_token_ids if eos_token_ids is None else eos_token_ids
        size = self.size if size is None else _check_size(size)
        tokens, names = self.tokens[: max(size, 0)], {id: s for id, s in self.special_tokens.items() if id < size}
        if eos_token_ids is None and not end_ids:
            other = Vocabulary.without_end(tokens, special_tokens=names, size=size)
        else:
            other = Vocabulary(tokens, eos_token_ids=end_ids, special_tokens=names, size=size)
        if size >= self.size:
            other._factory, other._special_factory = self._factory, self._special_factory
        elif first_base_token(self.tokens, self.text_markers, size) is None:
            bounded = partial(BoundedEncoder, size=size, names=self.special_tokens, tokens=self.tokens)
            other._factory = lambda: bounded(lambda text, continued: self.encode(text, continued=continued))
            other._special_factory = lambda: bounded(lambda text, _: self.encode_with_special(text))
        if not any(self.tokens[size:]):
            other._pairs_factory, other.text_markers = self._pairs_factory, self.text_markers
        return other

    def changed(self, *, eos_token_ids: Collection[int] | None = None, size: int | None = None) -> Vocabulary:
        """Deprecated: use `copy_with`."""
        warnings.warn("Vocabulary.changed is Vocabulary.copy_with", DeprecationWarning, stacklevel=2)
        return self.copy_with(eos_token_ids=eos_token_ids, size=size)

    @classmethod
    def from_source(cls, source: Source) -> Self:
        """The vocabulary from the `Source` of a custom reader, see `guided.vocabulary.source`."""
        return cls._from_reader(lambda: source, None, None)

    @classmethod
    def _from_reader(
        cls, read_tokens: Callable[[], Source], eos_token_ids: Collection[int] | None, size: int | None
    ) -> Self:
        """The vocabulary from a reader. A file that cannot be read raises VocabularyError."""
        try:
            source = read_tokens()
        except ModelFileError as error:
            raise VocabularyError(str(error)) from None
        end_ids = source.eos_token_ids if eos_token_ids is None else eos_token_ids
        if not end_ids:
            raise VocabularyError(
                "the tokenizer does not say which tokens end an output: pass eos_token_ids=[...]; its special tokens "
                f"are {dict(list(source.special_tokens.items())[:8])}"
            )
        size = source.size if size is None else size
        tokens = [token or None for token in source.tokens]
        vocabulary = cls(tokens, eos_token_ids=end_ids, special_tokens=source.special_tokens, size=size)
        vocabulary._special_factory, vocabulary._pairs_factory = source.special_encoder, source.byte_pairs
        vocabulary.text_markers = tuple(source.markers)
        if source.encoder is not None:
            vocabulary._factory = source.encoder
        return vocabulary


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"the text to encode is a str, not a {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise VocabularyError(f"the text contains a lone surrogate at character {error.start}") from None


def _check_tokens(tokens: Sequence[bytes | None], ids_without_text: Iterable[int]) -> tuple[bytes | None, ...]:
    """The tokens as a tuple, None for ids without text."""
    if isinstance(tokens, (str, bytes)):
        raise VocabularyError("tokens is a sequence of bytes, one for each id, not one string")
    if not isinstance(tokens, Iterable) or isinstance(tokens, Mapping):
        raise VocabularyError(f"tokens is a sequence of bytes, one for each id, not a {type(tokens).__name__}")
    out = read_items("tokens", tokens, max_items=MAX_SIZE, error=VocabularyError)
    invalid_types = set(map(type, out)) - {bytes, type(None)}
    if invalid_types:
        number = next(k for k, token in enumerate(out) if type(token) in invalid_types)
        raise VocabularyError(f"token {number} is {brief(out[number])}: tokens are bytes (or None), not text")
    for number in ids_without_text:
        if number < len(out):
            out[number] = None
    lengths = [len(token) for token in out if token is not None]
    if 0 in lengths:
        raise VocabularyError(f"token {out.index(b'')} is empty: write None for an id without text")
    if (longest := max(lengths, default=0)) > MAX_TOKEN_BYTES:
        number = next(k for k, token in enumerate(out) if token is not None and len(token) == longest)
        raise VocabularyError(f"token {number} has {longest:,} bytes, at most {MAX_TOKEN_BYTES:,} are allowed")
    if (total := sum(lengths)) > MAX_TOTAL_BYTES:
        raise VocabularyError(f"the tokens have {total:,} bytes together, at most {MAX_TOTAL_BYTES:,} are allowed")
    return tuple(out)


def _check_names(special_tokens: Mapping[int, str]) -> dict[int, str]:
    if not isinstance(special_tokens, Mapping):
        raise VocabularyError(f"special_tokens is a mapping from ids to names, not a {type(special_tokens).__name__}")
    for number, name in special_tokens.items():
        if isinstance(number, str) or not isinstance(name, str):
            raise VocabularyError(f"special_tokens maps ids to names, but contains {brief(number)}: {brief(name)}")
    return dict(zip(check_ids(special_tokens, "special_tokens"), special_tokens.values(), strict=True))


def _check_size(size: int) -> int:
    try:
        return index(size)
    except TypeError:
        raise VocabularyError(f"size is an integer, not {brief(size)}") from None
