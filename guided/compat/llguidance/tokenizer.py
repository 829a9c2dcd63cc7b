"""`LLTokenizer` and `TokenizerWrapper`. In: a tokenizer in one of llguidance's forms, or a `Vocabulary`. Out:
llguidance's methods over a `Vocabulary`, and compilers for it.

As in llguidance, bytes may contain control tokens: 0xFF, which never occurs in UTF-8, followed by the token's name or
by its id, as in `[13]`.

Slices, which speed up llguidance's masks, are ignored, and so is `recent_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from guided.errors import GuidedError, VocabularyError
from guided.limits import Limits
from guided.matching.compiled import native_vocabulary
from guided.matching.compiler import GrammarCompiler
from guided.vocabulary import Vocabulary
from guided.vocabulary.source import Source

__all__ = ["LLTokenizer", "TokenizerWrapper"]

_MARKER: Final = 0xFF
_ID_IN_BRACKETS: Final = re.compile(rb"\[(\d{1,9})\]")
_JSON_SLICES: Final = (r"[\x20\x0A\x0D\x09]+", *(rf'[^"\\\x00-\x1F\x7F]{many}' for many in ("{1,10}", "{1,30}", "+")))
_BYTE_SPECIALS: Final = ("<|tool|>", "<|/tool|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>")


class TokenizerWrapper:
    """llguidance's view of any tokenizer.

    Args:
        gtokenizer: an object with `eos_token_id`, `bos_token_id`, `tokens` (the bytes of each id) and
            `special_token_ids`. Calling it encodes a text, given as bytes, or as a str if it does not accept bytes.
    """

    def __init__(self, gtokenizer: Any) -> None:
        self.eos_token_id: int = gtokenizer.eos_token_id
        self.bos_token_id: int | None = gtokenizer.bos_token_id
        self.tokens: Sequence[bytes] = gtokenizer.tokens
        self.special_token_ids: Sequence[int] = getattr(gtokenizer, "special_token_ids", [])
        self.is_tokenizer_wrapper = True
        self._gtokenizer = gtokenizer
        try:
            gtokenizer(b"test")
            self._accepts_bytes = True
        except Exception:
            self._accepts_bytes = False

    def __call__(self, s: str) -> list[int]:
        """The ids of a text."""
        return list(self._gtokenizer(s.encode() if self._accepts_bytes else s))


class LLTokenizer:
    """A tokenizer for matchers.

    Args:
        tokenizer: "byte" (256 bytes and six control tokens), the path or the text of a tokenizer.json, a
            `TokenizerWrapper`, or a `guided.Vocabulary`.
        n_vocab: the number of logits, if there are more logits than tokens.
        eos_token: the end token or tokens, instead of the tokenizer's.
        slices: ignored.

    Attributes:
        vocab_size, eos_token, eos_tokens: the number of logits, the first end token, all end tokens.
        is_canonical: always True: texts are encoded as the model's tokenizer encodes them.
        vocabulary: the tokenizer's `Vocabulary`.

    Raises:
        ValueError: the tokenizer cannot be read, or `eos_token` is an empty list.
    """

    def __init__(
        self,
        tokenizer: str | TokenizerWrapper | Vocabulary,
        n_vocab: int | None = None,
        eos_token: int | list[int] | None = None,
        slices: list[str] | None = None,
    ) -> None:
        end_ids = [eos_token] if isinstance(eos_token, int) else None if eos_token is None else list(eos_token)
        if end_ids == []:
            raise ValueError("eos_token list must not be empty")
        try:
            self._initialise(*_read_tokenizer(tokenizer, n_vocab, end_ids))
        except GuidedError as error:
            raise ValueError(f"error loading tokenizer: {error}") from error

    def _initialise(self, vocabulary: Vocabulary, end_ids: Sequence[int], names: Mapping[int, str]) -> None:
        self.vocabulary, self.eos_tokens, self._names = vocabulary, list(end_ids), dict(names)
        self.eos_token, self.vocab_size, self.is_canonical = self.eos_tokens[0], vocabulary.size, True
        self._compilers: dict[Limits, GrammarCompiler] = {}

    def get_compiler(self, limits: Limits) -> GrammarCompiler:
        """The compiler for this vocabulary and these limits. Equal limits return the same compiler."""
        compiler = self._compilers.get(limits)
        if compiler is None:  # `setdefault`, since another thread may have added one
            compiler = self._compilers.setdefault(limits, GrammarCompiler(self.vocabulary, limits=limits, warn=False))
        return compiler

    @cached_property
    def control_ids(self) -> list[int]:
        """The ids without text, in ascending order, except for the end tokens."""
        tokens, end_ids = self.vocabulary.tokens, self.vocabulary.eos_token_ids
        has_text = [bool(token) for token in tokens] + [False] * (self.vocabulary.size - len(tokens))
        return [token_id for token_id, is_text in enumerate(has_text) if not is_text and token_id not in end_ids]

    @staticmethod
    def from_tiktoken(
        encoder: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        pattern: str,
        eos_token: int | list[int],
        n_vocab: int | None = None,
        slices: list[str] | None = None,
    ) -> LLTokenizer:
        """Build a tokenizer from tiktoken's ranks. See `guided.compat.llguidance.tiktoken`."""
        import tiktoken

        encoding = tiktoken.Encoding(
            "given", pat_str=pattern, mergeable_ranks=dict(encoder), special_tokens=dict(special_tokens)
        )
        end_ids = [eos_token] if isinstance(eos_token, int) else list(eos_token)
        size = None if n_vocab is None else max(n_vocab, encoding.n_vocab)
        return LLTokenizer(Vocabulary.from_tiktoken(encoding, eos_token_ids=end_ids, size=size), eos_token=end_ids)

    def with_slices(self, slices: list[str]) -> Self:
        """The same tokenizer, since slices are ignored."""
        return self

    @staticmethod
    def general_slices() -> list[str]:
        """The slices that llguidance uses for most grammars."""
        return list(_JSON_SLICES)

    @staticmethod
    def json_slices() -> list[str]:
        """The slices that llguidance uses for JSON."""
        return list(_JSON_SLICES)

    def greedy_tokenize(self, text: str) -> list[int]:
        """Encode a text by taking the longest token at each position. Bytes at which no token begins are skipped."""
        return self._tokenize_greedily(text.encode())

    def tokenize_bytes(self, utf8bytes: bytes, *, parse_special: bool = False) -> list[int]:
        """The ids of bytes. The tokenizer encodes valid UTF-8, also before an incomplete character at the end; other
        bytes are encoded greedily, with the longest tokens. See the module docstring for control tokens."""
        if parse_special:
            return self.tokenize_str(utf8bytes.decode(errors="replace"), parse_special=True)
        return [token for token, _ in self._tokenize(utf8bytes)]

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """The ids of a text. With `parse_special`, names of control tokens in the text become these tokens."""
        return self.vocabulary.encode_with_special(text) if parse_special else self.tokenize_bytes(text.encode())

    def tokenize_partial(self, new_bytes: bytes, recent_tokens: list[int] | None = None) -> tuple[list[int], bytes]:
        """Return the ids at the beginning that later bytes cannot change, and the remaining bytes."""
        native, offset = native_vocabulary(self.vocabulary), 0
        out, last_marker = list[int](), new_bytes.rfind(_MARKER)
        for token, end in self._tokenize(new_bytes):
            if end < 0 or (last_marker < offset and native.extends(new_bytes[offset:])):
                break
            out.append(token)
            offset = end
        return out, new_bytes[offset:]

    def decode_bytes(self, tokens: list[int]) -> bytes:
        """The bytes of ids. A control token becomes its name, and an id without text becomes `<[id]>`."""
        return b"".join(map(self._decode_token, tokens))

    def decode_str(self, tokens: list[int]) -> str:
        """The text of ids, with U+FFFD in place of bytes that are not UTF-8."""
        return self.decode_bytes(tokens).decode(errors="replace")

    def is_special_token(self, token: int) -> bool:
        """Whether the token is a control token."""
        return token in self._names

    def dbg_tokens(self, tokens: list[int]) -> str:
        """Tokens in a readable form."""
        return f"\u27e6{self.test_trace_tokens(tokens)}\u27e7".replace("\n", "\\n")

    def test_trace_tokens(self, tokens: list[int]) -> str:
        """Tokens in the form of llguidance's test traces."""
        return "\u2027".join(self._format_token(token) for token in tokens)

    def _format_token(self, token: int) -> str:
        if token in self.eos_tokens:
            return "\u227aEOS\u227b"
        if token in self._names:
            return self._names[token]
        data = self._token_bytes(token)
        if data is None:
            return f"\u227a{'EMPTY' if token < self.vocab_size else 'OOB'}[{token}]\u227b"
        try:
            return data.decode()
        except UnicodeDecodeError:
            return f"\u227aHEX[{data.hex()}]\u227b"

    def _token_bytes(self, token: int) -> bytes | None:
        return self.vocabulary.token_bytes(token) if 0 <= token < self.vocab_size else None

    def _decode_token(self, token: int) -> bytes:
        if token in self._names:
            return self._names[token].encode()
        return self._token_bytes(token) or f"<[{token}]>".encode()

    def _control_token_at(self, piece: bytes) -> tuple[int | None, int]:
        """Find the control token whose name or id follows a marker. Returns it, and the length of the name or id."""
        if (match := _ID_IN_BRACKETS.match(piece)) and int(match[1]) < self.vocab_size:
            return int(match[1]), match.end()
        for name, token in self._tokens_by_name:
            if piece.startswith(name):
                return token, len(name)
        return None, 0

    @cached_property
    def _tokens_by_name(self) -> list[tuple[bytes, int]]:
        pairs = [(name.encode(), token) for token, name in self._names.items() if name]
        return sorted(pairs, key=lambda each: (-len(each[0]), each[1]))

    def _tokenize(self, data: bytes) -> list[tuple[int, int]]:
        """The ids of bytes, each with the offset of its end, or -1 if the ids of the text between two control tokens do
        not decode to that text."""
        out: list[tuple[int, int]] = []
        offset = 0
        for piece_index, piece in enumerate(data.split(bytes([_MARKER]))):
            begin = offset
            if piece_index:
                control_token, length = self._control_token_at(piece)
                begin += 1 + length
                out += [] if control_token is None else [(control_token, begin)]
                piece = piece[length:]
            ids, end = self._tokenize_text(piece), begin
            is_exact = b"".join(self._token_bytes(token) or b"" for token in ids) == piece
            for token in ids:
                end += len(self._token_bytes(token) or b"")
                out.append((token, end if is_exact else -1))
            offset = begin + len(piece)
        return out

    def _tokenize_text(self, data: bytes) -> list[int]:
        text = data.decode(errors="ignore") if _is_incomplete_utf8(data) else None
        try:
            prefix = data.decode() if text is None else text
            return self.vocabulary.encode(prefix, continued=True) + self._tokenize_greedily(
                data[len(prefix.encode()) :]
            )
        except (UnicodeDecodeError, VocabularyError):
            return self._tokenize_greedily(data)

    def _tokenize_greedily(self, data: bytes) -> list[int]:
        ids, max_length = self._ids_by_bytes
        out, offset = [], 0
        while offset < len(data):
            lengths = range(min(max_length, len(data) - offset), 0, -1)
            length = next((length for length in lengths if data[offset : offset + length] in ids), 0)
            out += [ids[data[offset : offset + length]]] if length else []
            offset += length or 1
        return out

    @cached_property
    def _ids_by_bytes(self) -> tuple[dict[bytes, int], int]:
        ids: dict[bytes, int] = {}
        for number, token in enumerate(self.vocabulary.tokens):
            if token:
                ids.setdefault(token, number)
        return ids, max(map(len, ids), default=0)


class _CallEncoder:
    """Encodes by calling a `TokenizerWrapper`."""

    def __init__(self, call: Callable[[str], list[int]]) -> None:
        self._call = call

    def encode(self, text: str, continued: bool = False) -> list[int]:
        return list(self._call(text))


def _is_incomplete_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8 except for an incomplete last character."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _read_tokenizer(
    tokenizer: Any, size: int | None, given_end_ids: list[int] | None
) -> tuple[Vocabulary, list[int], dict[int, str]]:
    """Read a tokenizer: its vocabulary, its end tokens in order, and the names of control tokens."""
    if isinstance(tokenizer, Vocabulary):
        return _set_end_ids(tokenizer, size, given_end_ids)
    if tokenizer == "byte":
        names = dict(enumerate(_BYTE_SPECIALS, 256))
        tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(_MARKER)), None]
        end_ids = given_end_ids or [261]
        vocabulary = Vocabulary(
            tokens, eos_token_ids=end_ids, special_tokens=names, size=max(size or 0, 262, *(end + 1 for end in end_ids))
        )
        return vocabulary, end_ids, {_MARKER: "", **names}
    if isinstance(tokenizer, str):
        return _set_end_ids(_read_json_or_file(tokenizer, given_end_ids), size, given_end_ids)
    if getattr(tokenizer, "is_tokenizer_wrapper", False):
        return _read_wrapper(tokenizer, size, given_end_ids)
    raise ValueError(f"Expecting a TokenizerWrapper() class, a str or a guided.Vocabulary, not {type(tokenizer)}")


def _read_json_or_file(tokenizer: str, end_ids: list[int] | None) -> Vocabulary:
    if tokenizer.lstrip().startswith("{"):
        return Vocabulary.from_huggingface(SimpleNamespace(to_str=lambda: tokenizer), eos_token_ids=end_ids)
    if not Path(tokenizer).exists():
        raise VocabularyError(f"{tokenizer}: there is no such file, and models on a hub are not looked up")
    return Vocabulary.from_huggingface(tokenizer, eos_token_ids=end_ids)


def _set_end_ids(
    vocabulary: Vocabulary, size: int | None, given_end_ids: list[int] | None
) -> tuple[Vocabulary, list[int], dict[int, str]]:
    end_ids = sorted(vocabulary.eos_token_ids) if given_end_ids is None else given_end_ids
    names = dict(vocabulary.special_tokens)
    if vocabulary.eos_token_ids != set(end_ids) or (size or 0) > vocabulary.size:
        vocabulary = vocabulary.copy_with(
            eos_token_ids=end_ids, size=max(size or 0, vocabulary.size, *(end + 1 for end in end_ids))
        )
    return vocabulary, end_ids, {**{end: names.get(end, f"<[{end}]>") for end in end_ids}, **names}


def _read_wrapper(
    wrapper: Any, size: int | None, given_end_ids: list[int] | None
) -> tuple[Vocabulary, list[int], dict[int, str]]:
    tokens: list[bytes | None] = [bytes(token) for token in wrapper.tokens]
    end_ids = given_end_ids or [int(wrapper.eos_token_id)]
    special_ids = {*map(int, wrapper.special_token_ids), *end_ids}
    special_ids |= {number for number, token in enumerate(tokens) if token and token[0] == _MARKER and len(token) > 1}
    names = {
        number: (tokens[number] or b"").removeprefix(bytes([_MARKER])).decode(errors="replace")
        for number in sorted(special_ids)
        if number < len(tokens)
    }
    source = Source(
        tokens, end_ids, {number: name for number, name in names.items() if name}, lambda: _CallEncoder(wrapper),
        max(size or 0, len(tokens)),
    )  # fmt: skip
    return Vocabulary.from_source(source), end_ids, names
