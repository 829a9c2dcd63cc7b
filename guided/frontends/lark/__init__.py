"""The front end for Lark grammars. In: a text. Out: an IR grammar.

    start: greeting ("," greeting)*
    greeting: /[A-Z][a-z]+/ | "hello"i
    %ignore " "

How: C++ code reads the grammar (`native_grammar.py`). If the grammar contains a mistake or something that this code
does not support, Lark's own loader reads it (`loader.py`). So imports, templates, `%extend` and all other directives
mean the same as in Lark. Terminals become regular nodes (`terminals.py`), and rules become rules of the IR
(`rules.py`).

"scannerless" semantics accept every way to split an input into terminals, as Lark's Earley parser does with
`lexer="dynamic_complete"`. Any number of ignored terminals may occur before, between and after all others.

"lexer" semantics have a separate lexer (`lexing.py`), like Lark's LALR parser with its contextual lexer: a terminal
takes its longest match, regardless of what follows. The lexer can track indentation (`indentation.py`). With
`lexer="basic"`, it tries all terminals everywhere, as the lexers of programming languages do: `SELECTED` is then one
name, even in a position that allows `SELECT` but no name.

A grammar may use the extensions of llguidance and xgrammar (`dialect/`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Final, Literal

from guided.errors import Finding, GuidedError, LimitExceeded, SpecError, brief, warn_about
from guided.frontends.common.left_recursion import find_left_recursive, recursion_error
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.nodes import Grammar
from guided.ir.ranges import Ranges
from guided.keywords import read_items
from guided.limits import Limits
from guided.meter import limit_compilation

from .bounds import check_depth, make_depth_error
from .dialect import Context, needs_scannerless, resolve_parts, rewrite_extensions
from .indentation import read_indenter
from .lexing import add_lexer
from .loader import LoadedGrammar, convert_native, load
from .native_grammar import read_grammar
from .rules import build_scannerless_grammar
from .sources import Source
from .why_empty import find_empty_reason

__all__ = [
    "LarkOptions",
    "check_folders",
    "check_grammars",
    "check_not_empty",
    "load_lark",
    "read_lark",
]

_OTHER_NOTATION: Final = re.compile(r"(?m)^[ \t]*[A-Za-z_][\w-]*[ \t]*(::=)")


@dataclass(frozen=True)
class LarkOptions:
    """How a Lark grammar is read.

    Attributes:
        start: the start rule.
        semantics: "lexer" or "scannerless"; see the module docstring. None: "lexer", unless `lexer` is "contextual" and
            the grammar uses extensions that a lexer does not support (embedded schemas, grammars and tokens; `lazy`,
            `suffix`, `stop`, `max_chars`, `max_tokens`; options that restrict ignored terminals).
        lexer: "contextual": try only terminals that some rule can accept at a position; "basic": try all, as Lark's
            basic lexer does.
        import_paths: folders in which `%import` searches for files. By default, a grammar can import only Lark's own
            grammars (`common`, `unicode`, `python`, `lark`).
        postlex: an instance of `lark.indenter.Indenter`, or "python" for Lark's `PythonIndenter`. It creates terminals
            from the indentation of lines. The grammar declares them (`%declare _INDENT _DEDENT`).
        grammars: the grammars for `@name`: name -> a Lark grammar, a JSON Schema as a dict, or a specification.
        allow_special_tokens: whether the grammar may refer to tokens of the vocabulary. Set it to False for untrusted
            grammars.
        alphabet: the characters that the vocabulary can write; None: all. A grammar with a lexer is then exact for
            texts of them only.
    """

    start: str = "start"
    semantics: Literal["lexer", "scannerless"] | None = None
    lexer: Literal["contextual", "basic"] = "contextual"
    import_paths: tuple[str, ...] = ()
    postlex: object = None
    grammars: Mapping[str, Any] = field(default_factory=dict)
    allow_special_tokens: bool = False
    alphabet: Ranges | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.start, str):
            raise TypeError(f"start must be the name of a rule, not {brief(self.start)}")
        if self.semantics not in ("lexer", "scannerless", None):
            raise ValueError(f"semantics must be 'lexer' or 'scannerless', not {brief(self.semantics)}")
        if self.lexer not in ("contextual", "basic"):
            raise ValueError(f"lexer must be 'contextual' or 'basic', not {brief(self.lexer)}")
        if self.semantics == "scannerless" and self.lexer != "contextual":
            raise ValueError('the basic lexer needs semantics="lexer"')
        if self.postlex is not None and self.semantics == "scannerless":
            raise ValueError('postlex changes lexemes: it needs semantics="lexer"')
        if not isinstance(self.allow_special_tokens, bool):
            raise TypeError(f"allow_special_tokens must be True or False, not {brief(self.allow_special_tokens)}")


def check_folders(import_paths: Iterable[object]) -> tuple[str, ...]:
    """Check the argument `import_paths`, and return it as strings. Raises TypeError if it is not a list of folders."""
    if isinstance(import_paths, str | bytes) or not isinstance(import_paths, Iterable):
        raise TypeError(f"import_paths must be a list of folders, not {brief(import_paths)}")
    out = []
    for folder in read_items("import_paths", import_paths):
        if not isinstance(folder, str | PathLike):
            raise TypeError(f"import_paths must be a list of folders, but {brief(folder)} is not a folder")
        out.append(str(folder))
    return tuple(out)


def check_grammars(grammars: object) -> dict[str, Any]:
    """Check the argument `grammars`, and return it as a dict. Raises TypeError if it is not a mapping of names."""
    if grammars is None:
        return {}
    if not isinstance(grammars, Mapping):
        raise TypeError(f'grammars must map names to grammars, such as {{"name": text}}, not {brief(grammars)}')
    for name in grammars:
        if not isinstance(name, str):
            raise TypeError(f"grammars must map names to grammars, but {brief(name)} is not a name")
    return dict(grammars)


def read_lark(
    text: str,
    options: LarkOptions = LarkOptions(),
    limits: Limits | None = None,
    schema_options: JsonSchemaOptions = DEFAULTS,
    findings: list[Finding] | None = None,
) -> Grammar:
    """The IR grammar of a Lark grammar. With "lexer" semantics, its field `lexer` is set.

    Args:
        schema_options: options for JSON Schemas in the grammar.
        findings: receives the parts that are read but not enforced. Without it, they cause a warning.

    Raises:
        SpecError: the text is malformed, a rule or terminal is not defined, or the grammar requires a token without
            permission; with a lexer: a terminal matches the empty string, or `postlex` lacks an attribute.
        UnsupportedError: a terminal is not regular, or depends on the text around it; `postlex` is not an indenter;
            a part is not supported.
        LimitExceeded: the text is too long, or has too many rules or too large a terminal.
    """
    new_findings: list[Finding] = []
    limits = Limits() if limits is None else limits
    with limit_compilation(limits):
        grammar = _read(text, options, limits, schema_options, new_findings, ())
    if findings is None:
        warn_about(new_findings)
    else:
        findings += new_findings
    return grammar


def check_not_empty(text: str, options: LarkOptions, limits: Limits, schema_options: JsonSchemaOptions) -> None:
    """Raise SpecError if the reason why the grammar generates nothing is found; see `why_empty.py`."""
    loaded_grammar, is_regular = _load(text, options, limits, schema_options, [], ())
    try:
        error = find_empty_reason(loaded_grammar, options.lexer if _has_lexer(options, is_regular) else None, limits)
    except TooLarge:  # the search takes too long
        return
    if error is not None:
        raise error


def load_lark(text: str, options: LarkOptions = LarkOptions(), limits: Limits | None = None) -> LoadedGrammar:
    """The definitions of a Lark grammar, before they become IR nodes. Errors: see `read_lark`."""
    return _load(text, options, Limits() if limits is None else limits, DEFAULTS, [], ())[0]


def _read(
    text: str,
    options: LarkOptions,
    limits: Limits,
    schema_options: JsonSchemaOptions,
    findings: list[Finding],
    chain: tuple[str, ...],
) -> Grammar:
    loaded_grammar, is_regular = _load(text, options, limits, schema_options, findings, chain)
    if not _has_lexer(options, is_regular):
        grammar = build_scannerless_grammar(loaded_grammar, limits)
    else:
        indentation = None if options.postlex is None else read_indenter(options.postlex)
        is_contextual = options.lexer == "contextual"
        rules, lexer = add_lexer(loaded_grammar, indentation, is_contextual, limits, options.alphabet)
        grammar = replace(rules, lexer=lexer)
    for rule in find_left_recursive(grammar):
        error = recursion_error(grammar.origins[rule])
        raise loaded_grammar.locate(error, rule.removeprefix("rule "))
    return grammar


def _has_lexer(options: LarkOptions, is_regular: bool) -> bool:
    return options.semantics == "lexer" if options.semantics else is_regular or options.lexer == "basic"


def _load(
    text: str,
    options: LarkOptions,
    limits: Limits,
    schema_options: JsonSchemaOptions,
    findings: list[Finding],
    chain: tuple[str, ...],
) -> tuple[LoadedGrammar, bool]:
    """(the definitions of a grammar, whether a lexer can read its terminals)."""
    if not isinstance(text, str):
        raise SpecError(
            f"a Lark grammar must be a text, not {brief(text)}", hint='write a text such as start: "yes" | "no"'
        )
    if other := _OTHER_NOTATION.search(text):
        hint = "use compile_gbnf or --gbnf for it; in Lark's notation, write a rule as name: ..."
        raise SpecError("this is the notation of GBNF or EBNF", text=text, span=other.span(1), hint=hint)
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    if (native := _load_natively(text, options, limits)) is not None:  # then the grammar uses no extensions
        return native, True
    check_depth(Source(text), limits)
    external_names = _list_indenter_terminals(options)
    try:
        plain_grammar = rewrite_extensions(text, limits)
    except RecursionError:
        raise make_depth_error(Source(text)) from None
    if plain_grammar is None:
        return load(text, options.start, options.import_paths, limits, external_names), True
    names = plain_grammar.parts.keys() | plain_grammar.terminals.keys()
    try:
        loaded_grammar = _load_natively(plain_grammar.text, options, limits, names) or load(
            plain_grammar.text, options.start, options.import_paths, limits, external_names | names
        )
    except GuidedError as error:
        if error.text == plain_grammar.text:
            error.with_location(text, plain_grammar.original_span(error.span))
        raise

    def read_nested(nested_text: str, name: str) -> Grammar:
        nested_options = replace(options, start="start", semantics="scannerless", lexer="contextual", postlex=None)
        return _read(nested_text, nested_options, limits, schema_options, findings, (*chain, name))

    def embed(spec: Any) -> Grammar:
        from guided.frontends.combinators import json_schema  # a circular import: these modules also read Lark texts
        from guided.frontends.composition import expr_to_grammar

        part = json_schema(spec) if isinstance(spec, Mapping) else spec
        return expr_to_grammar(part, limits, findings, options=schema_options)

    allow_special_tokens = options.allow_special_tokens
    context = Context(
        limits, options.grammars, allow_special_tokens, schema_options, findings, read_nested, embed, chain
    )
    try:
        loaded_grammar = resolve_parts(plain_grammar, loaded_grammar, context)
    except RecursionError:
        raise make_depth_error(Source(text)) from None
    return loaded_grammar, plain_grammar.is_regular and not needs_scannerless(loaded_grammar, limits)


def _load_natively(
    text: str, options: LarkOptions, limits: Limits, names: Set[str] = frozenset()
) -> LoadedGrammar | None:
    """The definitions of a grammar, or None if the C++ code cannot read it. `names`: terminals without a pattern."""
    native = read_grammar(text, options.start, options.import_paths, limits)
    if native is None:
        return None
    return convert_native(text, options.start, native, limits, _list_indenter_terminals(options) | names)


def _list_indenter_terminals(options: LarkOptions) -> frozenset[str]:
    """The terminals that `postlex` creates."""
    if options.postlex is None:
        return frozenset()
    indentation = read_indenter(options.postlex)
    return frozenset({indentation.indent, indentation.dedent})
