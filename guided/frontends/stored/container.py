"""Stores grammars as bytes. In: grammars, and data about them. Out: bytes, from which `read_container` restores both.

The bytes do not depend on a vocabulary. They begin with `_MAGIC` and the number of the format. The rest is compressed:
the length of a JSON text, this JSON text, and the tables of integers (`tables.py`).

The bytes may come from strangers. They contain only data, no code, and are read under limits: `Limits.nodes` bounds the
size of the tables, `Limits.spec_length` the size of the JSON text. At worst, a forged file describes another grammar.

Cost: linear.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guided.errors import LimitExceeded, SpecError
from guided.frontends.stored.fields import malformed
from guided.frontends.stored.tables import Tables, TablesWriter, to_json_text, to_little_endian
from guided.ir.nodes import Grammar
from guided.limits import Limits
from guided.version import __version__

__all__ = ["FORMAT", "Container", "read_container", "write_container"]

FORMAT: Final = 2
_MAGIC: Final = b"\x89guided grammar\n"
_HINT: Final = "store the grammar again"
_BYTES_PER_NODE: Final = 16
_BYTES_PER_CHARACTER: Final = 4
_WORD_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class Container:
    """Grammars that were stored together, and data about them, as JSON."""

    tables: Tables
    metadata: Mapping[str, Any]

    def grammar(self, number: int = 0) -> Grammar:
        """Read the grammar with this number, in the order of `write_container`. Each call reads it again.

        Raises:
            SpecError: the grammar is malformed. LimitExceeded: it has too many nodes.
        """
        table_numbers = self.metadata["grammars"]
        return self.tables.read(table_numbers[number])


def write_container(grammars: Sequence[Grammar], metadata: Mapping[str, Any]) -> bytes:
    """Store grammars.

    Args:
        metadata: more data, as JSON; the keys `version`, `grammars`, `tables`, `texts` and `values` are reserved.

    Raises:
        SpecError: a part of a grammar or of `metadata` cannot be stored, such as a schema that is not plain JSON.
    """
    writer = TablesWriter()
    table_numbers = [writer.add(grammar) for grammar in grammars]
    header: dict[str, Any] = {
        **metadata, "version": __version__, "grammars": table_numbers, "tables": list(map(len, writer.tables)),
        "texts": list(writer.texts),
    }  # fmt: skip
    text = to_json_text(header)
    text = f'{text[:-1]},"values":[{",".join(writer.values)}]}}'
    data = text.encode("utf-8", "surrogatepass")
    parts = [len(data).to_bytes(_WORD_SIZE, "little"), data, *map(to_little_endian, writer.tables)]
    return _MAGIC + bytes([FORMAT]) + zlib.compress(b"".join(parts))


def read_container(data: bytes, limits: Limits) -> Container:
    """Read the bytes of `write_container`.

    Raises:
        SpecError: the bytes are not a stored grammar, are damaged, or were written by another version of guided.
        LimitExceeded: a limit is exceeded.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SpecError(f"a stored grammar is bytes, not a {type(data).__name__}")
    data = bytes(data)
    header_size = len(_MAGIC) + 1
    if len(data) < header_size or not data.startswith(_MAGIC):
        raise SpecError("this is not a stored grammar", hint="pass the result of CompiledGrammar.to_bytes()")
    if data[header_size - 1] != FORMAT:
        raise SpecError(f"the stored grammar has format {data[header_size - 1]}, not {FORMAT}", hint=_HINT)
    body = _decompress(data[header_size:], limits)
    text_size = int.from_bytes(body[:_WORD_SIZE], "little")
    if text_size > _BYTES_PER_CHARACTER * limits.spec_length:
        raise LimitExceeded("spec_length", text_size // _BYTES_PER_CHARACTER, limits.spec_length)
    header = _read_header(body[_WORD_SIZE : _WORD_SIZE + text_size])
    tables = _split_tables(body[_WORD_SIZE + text_size :], header.pop("tables"))
    return Container(Tables(tables, header.pop("texts"), header.pop("values"), limits), header)


def _decompress(data: bytes, limits: Limits) -> bytes:
    max_size = _WORD_SIZE + _BYTES_PER_NODE * limits.nodes + _BYTES_PER_CHARACTER * limits.spec_length
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data, max_size)
    except zlib.error:
        raise malformed("its compressed part is damaged") from None
    if stream.eof and not stream.unused_data:
        return body
    if len(body) >= max_size:
        raise LimitExceeded("nodes", limits.nodes + 1, limits.nodes)
    raise malformed("it is cut off, or other data follows it")


def _read_header(data: bytes) -> dict[str, Any]:
    """Read the JSON text, and check the types of its members."""
    try:
        header = json.loads(data.decode("utf-8", "surrogatepass"))
    except (RecursionError, ValueError):
        raise malformed("its JSON text is damaged") from None
    if not isinstance(header, dict):
        raise malformed("its JSON text is not an object")
    if header.get("version") != __version__:
        raise SpecError(f"the stored grammar was written by another version of guided, not {__version__}", hint=_HINT)
    if not all(isinstance(header.get(name), list) for name in ("grammars", "tables", "texts", "values")):
        raise malformed("a part of its JSON text is missing")
    if not all(type(number) is int and number >= 0 for number in (*header["tables"], *header["grammars"])):
        raise malformed("a number in its JSON text is negative, or not an integer")
    if not header["grammars"] or max(header["grammars"]) >= len(header["tables"]):
        raise malformed("it has no grammar")
    return header


def _split_tables(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Split the data into tables of these lengths."""
    if _WORD_SIZE * sum(lengths) != len(data):
        raise malformed("the lengths of its tables are wrong")
    tables, offset = [], 0
    for length in lengths:
        tables.append(data[offset : offset + _WORD_SIZE * length])
        offset += _WORD_SIZE * length
    return tables
