"""Writes a compiled specification as bytes, for one vocabulary, and reads it. In: its IR, kind, source and findings.
Out: bytes.

The bytes contain the IR and the data that a `CompiledGrammar` offers, not the structures of the core. The core compiles
the IR again, with all its checks. So reading skips only the front end, which takes most of the time, and forged bytes
cannot harm the core. The core reads the tables of the IR itself (`automaton/build_stored.py`); objects of the IR are
created only when they are needed.

If parts of a specification may be compiled later, two grammars are stored: the one that is compiled, and the whole
one, which explanations use.

A source that cannot be stored is replaced:

| source | after reading |
|---|---|
| a Python type | its JSON Schema; the kind is "json_schema" |
| a composed specification | an `Expr` with the IR as its only part, which generates the same texts |

The source of a JSON Schema is already in `Grammar.schemas`, so it is not stored a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from guided.errors import Finding, VocabularyError, brief
from guided.frontends.combinators import Expr, ReadPart
from guided.frontends.composition import only_part
from guided.frontends.pattern import is_element
from guided.frontends.stored import Tables, malformed, read_container, write_container
from guided.ir import Grammar
from guided.ir.embedded import EmbeddedSchema
from guided.limits import Limits

__all__ = ["LATER", "StoredSpecification", "read_specification", "write_specification"]

LATER: Final = object()
"""Placeholder for a source that is read on first use."""
_TEXT_KINDS: Final = frozenset(("regex", "gbnf", "lark"))
_KINDS: Final = _TEXT_KINDS | {"json_schema", "structural_tag", "choice", "pattern", "expr", "grammar"}


@dataclass(frozen=True, slots=True)
class StoredSpecification:
    """A stored specification.

    Attributes:
        kind, findings: as in `CompiledGrammar`.
        tables: the stored grammars.
        grammar_number: the number of the grammar to compile.
        read: reads the whole grammar.
        read_first: reads the grammar to compile; None: `read` reads it.
    """

    kind: str
    findings: tuple[Finding, ...]
    tables: Tables
    grammar_number: int
    read: Callable[[], Grammar]
    read_first: Callable[[], Grammar] | None
    _source: Any

    def source(self, start: str, schemas: Mapping[str, EmbeddedSchema]) -> Any:
        """The source, as in `CompiledGrammar`; `LATER` if it is the grammar that `read` returns.

        Args:
            start, schemas: the start rule and the schemas of the grammar to compile.

        Raises:
            SpecError: it is malformed.
        """
        return _restore_source(self.kind, self._source, start, schemas, self.read)


def write_specification(
    kind: str,
    source: Any,
    findings: Sequence[Finding],
    first: Grammar,
    read: Callable[[], Grammar] | None,
    vocabulary: str,
) -> bytes:
    """The bytes of a specification.

    Args:
        first: the grammar that was compiled.
        read: reads the whole grammar; None: it is `first`.
        vocabulary: the vocabulary's digest.

    Raises:
        SpecError: a schema is not plain JSON.
    """
    grammars = [first] if read is None else [first, read()]
    metadata: dict[str, Any] = {"kind": kind, "vocabulary": vocabulary}
    if kind == "type":
        metadata["kind"] = "json_schema"
    elif kind == "expr":
        metadata["source"] = only_part(source)[0] in ("json_schema", "type")
    elif kind in ("choice", "pattern"):
        metadata["source"] = [list(item) if isinstance(item, tuple) else item for item in source]
    elif kind not in ("json_schema", "grammar"):
        metadata["source"] = source
    metadata["findings"] = [[finding.pointer, finding.keyword, finding.reason, finding.hint] for finding in findings]
    return write_container(grammars, metadata)


def read_specification(data: bytes, vocabulary: str, limits: Limits) -> StoredSpecification:
    """The specification that `write_specification` wrote.

    Raises:
        SpecError: the bytes are not a stored specification, are damaged, or were written by another version of guided.
        VocabularyError: they were written for another vocabulary. LimitExceeded: a limit is exceeded.
    """
    container = read_container(data, limits)
    metadata = container.metadata
    if metadata.get("vocabulary") != vocabulary:
        raise VocabularyError(
            "the stored grammar was compiled for another vocabulary",
            hint="pass a vocabulary with the same tokens, end ids and special tokens",
        )
    kind, findings = metadata.get("kind"), metadata.get("findings")
    if (
        not isinstance(kind, str)
        or kind not in _KINDS
        or not isinstance(findings, list)
        or not all(map(_is_finding, findings))
    ):
        raise malformed("it has no kind, or no findings")
    grammars = metadata["grammars"]
    read: Callable[[], Grammar] = partial(container.grammar, len(grammars) - 1)
    return StoredSpecification(
        kind, tuple([Finding(*finding) for finding in findings]), container.tables, grammars[0],
        cache(read) if kind == "grammar" else read, container.grammar if len(grammars) > 1 else None,
        metadata.get("source"),
    )  # fmt: skip


def _is_finding(value: object) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(isinstance(item, str) for item in value)


def _restore_source(
    kind: str, stored_source: Any, start: str, schemas: Mapping[str, EmbeddedSchema], read: Callable[[], Grammar]
) -> Any:
    """The source of a specification."""
    is_string_list = isinstance(stored_source, list) and all(isinstance(item, str) for item in stored_source)
    match kind:
        case "grammar":
            return LATER
        case "json_schema" if start in schemas:
            return schemas[start].schema
        case "choice" if is_string_list:
            return tuple(stored_source)
        case "pattern" if isinstance(stored_source, list) and all(map(is_element, stored_source)):
            return [tuple(item) for item in stored_source]
        case "structural_tag" if isinstance(stored_source, str | dict):
            return stored_source
        case "expr" if isinstance(stored_source, bool):
            return _make_expr(schemas, read, stored_source)
    if kind in _TEXT_KINDS and isinstance(stored_source, str):
        return stored_source
    raise malformed(f"the source is {brief(stored_source)}")


def _make_expr(schemas: Mapping[str, EmbeddedSchema], read: Callable[[], Grammar], is_schema: bool) -> Expr:
    """A composed specification that generates the same texts. `is_schema`: its only part is a JSON Schema."""
    embedded = list(schemas.values())
    if not is_schema or len(embedded) != 1:
        return ReadPart(lambda *_: read())
    return ReadPart(lambda *_: read(), "json_schema", embedded[0].schema)
