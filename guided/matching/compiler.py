"""`GrammarCompiler` compiles specifications to `CompiledGrammar`s for one vocabulary.

In: a specification of any kind. Out: an immutable grammar that any number of matchers share, on any threads.
A compiler caches compiled grammars by content, up to `cache_bytes`; the least recently used are evicted first. All
compilers of a vocabulary share its token tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

from guided.errors import Finding, SpecError, UnsupportedError, VocabularyError, brief
from guided.frontends.choice import choice_to_grammar, read_choices
from guided.frontends.combinators import Expr
from guided.frontends.common.plain_values import to_plain_with_content
from guided.frontends.common.quoted_texts import check_documents
from guided.frontends.composition import content_of_parts, expr_to_grammar, stored_tables
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions, copy_registry
from guided.frontends.lark import LarkOptions, check_folders, check_grammars, check_not_empty, read_lark
from guided.frontends.lark.imported_files import state_of_folders
from guided.frontends.pattern import pattern_to_grammar, read_characters, read_elements
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.regex import Classes, parse_regex
from guided.frontends.structural_tag import structural_tag_to_grammar
from guided.ir import Grammar
from guided.keywords import keywords_checked
from guided.matching.cached_compiler import CachedCompiler
from guided.matching.compile_any import CompileAny
from guided.matching.compiled import CompiledGrammar
from guided.meter import limit_compilation

__all__ = ["GrammarCompiler"]


class GrammarCompiler(CachedCompiler, CompileAny):
    """Compiles specifications for `vocabulary`. `compile` takes any kind; each other method takes one kind.

    Args:
        vocabulary: the model's tokens.
        limits: bounds on each compilation and on the memory of each grammar's states.
        cache_bytes: the maximum memory of all cached grammars; 0 disables the cache.
        warn: whether to warn about parts that are not enforced. `CompiledGrammar.findings` lists them in any case.
        cache_dir: a folder in which compiled grammars are stored, which saves time after a restart and in other
            processes. None: no folder. The files take at most 256 MiB; the least recently used are removed.
            Composed specifications, and Lark grammars with `import_paths` or an `Indenter` object, are not stored.

    Raises:
        OptionError: `cache_dir` is empty, or is not a folder.
    """

    @keywords_checked(JsonSchemaKeywords.__annotations__)
    def compile_json_schema(
        self,
        schema: str | Mapping[str, Any] | bool | type,
        *,
        registry: Mapping[str, Any] | None = None,
        documents: Mapping[str, str] | None = None,
        **options: Unpack[JsonSchemaKeywords],
    ) -> CompiledGrammar:
        """Compile a JSON Schema, given as JSON text, as a dict or bool, or as a type.

        Args:
            registry: URI -> schema, for references to other documents.
            documents: name -> text, for `x-guided-quote`: strings that occur verbatim in a text (see `guided.Quote`).
            options: the fields of `JsonSchemaOptions`.

        Raises:
            SpecError: the schema is invalid, or allows nothing.
            UnsupportedError: a keyword or a combination that is not supported, with its JSON Pointer.
            OptionError: an option is out of range or has the wrong type.
            LimitExceeded: see `Limits`.

        Warns:
            GuidedWarning: keywords and formats that are not enforced; `strict=True` makes them errors.
        """
        if isinstance(schema, type):
            return self.compile_type(schema, registry=registry, documents=documents, **options)
        schema, text = to_plain_with_content(schema)
        resources, resource_content = to_plain_with_content(copy_registry(registry))
        texts = check_documents(documents)

        def compile_with(schema_options: JsonSchemaOptions) -> CompiledGrammar:
            def read(findings: list[Finding], explain_empty: bool = False) -> Grammar:
                return json_schema_to_grammar(
                    schema, schema_options, registry=resources, documents=texts, limits=self.limits, findings=findings,
                    require_values=explain_empty,
                )  # fmt: skip

            key = (
                "json_schema",
                text,
                isinstance(schema, str),
                schema_options,
                resource_content,
                tuple(texts.items()),
            )
            return self._compile(key, schema, read, why_empty=lambda: read([], True), parts=(schema, resources))

        return self._compile_with_fallback(compile_with, JsonSchemaOptions.of(**options))

    @keywords_checked()
    def compile_regex(
        self,
        pattern: str,
        *,
        dialect: Literal["python", "ecma"] = "python",
        search: bool = False,
        classes: Classes = "full",
    ) -> CompiledGrammar:
        r"""Compile a regular expression; the whole output must match (with `search`: contain a match).

        Args:
            dialect: "python" (what `re` matches) or "ecma" (what `new RegExp(pattern, "u")` matches).
            search: the output need only contain a match.
            classes: "full", or "plain", the default for generation: \d and \s are ASCII, and \w has the letters of all
                scripts and the ASCII digits (see `parse_regex`). If "plain" allows no text, "full" is used.

        Raises:
            SpecError: a syntax error, with its span.
            UnsupportedError: syntax that is not supported (most back-references), with its span.
        """
        if not isinstance(pattern, str):
            hint = "decode it" if isinstance(pattern, bytes) else "write it as text, such as r'[a-z]+'"
            raise SpecError(f"a pattern is a string, not a {type(pattern).__name__}", hint=hint)
        if not isinstance(search, bool):
            raise TypeError(f"search must be True or False, not {brief(search)}")
        if classes not in ("full", "plain"):
            raise ValueError(f"classes must be 'full' or 'plain', not {brief(classes)}")

        def compile_with(schema_options: JsonSchemaOptions) -> CompiledGrammar:
            return self._compile(
                ("regex", pattern, dialect, search, schema_options.classes),
                pattern,
                lambda _: _single_rule(
                    parse_regex(
                        pattern, dialect=dialect, search=search, classes=schema_options.classes, limits=self.limits
                    )
                ),
            )

        return self._compile_with_fallback(compile_with, JsonSchemaOptions.of(classes=classes))

    @keywords_checked()
    def compile_gbnf(self, text: str, *, root: str = "root", allow_special_tokens: bool = False) -> CompiledGrammar:
        """Compile a grammar in llama.cpp's GBNF or xgrammar's EBNF, see `guided.frontends.gbnf`.

        Args:
            root: the start rule.
            allow_special_tokens: whether the grammar may refer to control tokens, such as `<|call|>`. Leave it off for
                untrusted grammars.

        Raises:
            SpecError: a syntax error or an undefined rule, with its span; or the grammar generates nothing.
            UnsupportedError: an option of a rule that is not supported, with its span.
            VocabularyError: a control token that the vocabulary lacks.

        Warns:
            GuidedWarning: parts that are not enforced, such as a lookahead assertion.
        """
        if not isinstance(allow_special_tokens, bool):
            raise TypeError(f"allow_special_tokens must be True or False, not {brief(allow_special_tokens)}")

        def read(findings: list[Finding], explain_empty: bool = False) -> Grammar:
            return gbnf_to_grammar(
                text, root=root, allow_special_tokens=allow_special_tokens, limits=self.limits, findings=findings,
                refuse_empty=explain_empty,
            )  # fmt: skip

        return self._compile(("gbnf", text, root, allow_special_tokens), text, read, why_empty=lambda: read([], True))

    @keywords_checked(JsonSchemaKeywords.__annotations__)
    def compile_lark(
        self,
        text: str,
        *,
        start: str = "start",
        semantics: Literal["lexer", "scannerless"] | None = None,
        lexer: Literal["contextual", "basic"] = "contextual",
        grammars: Mapping[str, Any] | None = None,
        allow_special_tokens: bool = False,
        import_paths: Sequence[str] = (),
        postlex: object = None,
        **options: Unpack[JsonSchemaKeywords],
    ) -> CompiledGrammar:
        """Compile a Lark grammar, with the extensions of llguidance and xgrammar; see `guided.frontends.lark`.

        Args:
            start: the start rule.
            semantics: "lexer": as Lark's LALR parser, on any context-free grammar: each terminal takes its longest
                match. "scannerless": a text may be split into terminals in any way, as in Lark's Earley parser with
                `lexer="dynamic_complete"`. None: "lexer", unless the grammar uses extensions that need "scannerless".
            lexer: "contextual": only terminals that a rule allows here are tried, so `intx` may be two terminals.
                "basic": all terminals are tried, as with Lark's basic lexer, so `intx` is one name.
            grammars: the targets of `@name`: name -> a Lark grammar, a JSON Schema as a dict, or a specification.
            allow_special_tokens: whether the grammar may refer to control tokens, such as `<|call|>`. Leave it off for
                untrusted grammars.
            import_paths: folders in which `%import` finds files; by default only Lark's own grammars.
            postlex: with "lexer": an instance of `lark.indenter.Indenter`, or "python" for Lark's `PythonIndenter`.
            options: the fields of `JsonSchemaOptions`, for the schemas in the grammar.

        Raises:
            SpecError: the grammar is malformed or generates nothing. UnsupportedError: a terminal is not regular, or a
                part is not supported. VocabularyError: the vocabulary lacks a token, or cannot write any output.
        """
        folders, (named_grammars, grammar_contents) = check_folders(import_paths), _read_grammars(grammars)
        read_options = LarkOptions(start, semantics, lexer, folders, postlex, named_grammars, allow_special_tokens)
        contents = grammar_contents, state_of_folders(folders)
        key_parts = (start, semantics, lexer, folders, postlex, *contents, allow_special_tokens)

        def compile_reading(read_options: LarkOptions, schema_options: JsonSchemaOptions) -> CompiledGrammar:
            def read(findings: list[Finding]) -> Grammar:
                return read_lark(text, read_options, self.limits, schema_options, findings)

            why_empty = partial(check_not_empty, text, read_options, self.limits, schema_options)
            parts = None if folders else [target for target in named_grammars.values() if isinstance(target, Mapping)]
            return self._compile(("lark", text, key_parts, schema_options), text, read, why_empty, parts=parts)

        def compile_with(schema_options: JsonSchemaOptions) -> CompiledGrammar:
            try:
                return compile_reading(read_options, schema_options)
            except VocabularyError as error:
                if error.token is not None:
                    raise
                try:  # the vocabulary may lack the characters of some terminals
                    alphabet = self._native.find_alphabet()
                    return compile_reading(replace(read_options, alphabet=alphabet), schema_options)
                except (SpecError, UnsupportedError):
                    raise error from None

        return self._compile_with_fallback(compile_with, JsonSchemaOptions.of(**options))

    @keywords_checked(JsonSchemaKeywords.__annotations__)
    def compile_structural_tag(
        self,
        spec: str | Mapping[str, Any],
        *,
        allow_special_tokens: bool = False,
        **options: Unpack[JsonSchemaKeywords],
    ) -> CompiledGrammar:
        """Compile a structural tag, given as JSON text or as a dict; see `guided.frontends.structural_tag`.

        Args:
            allow_special_tokens: whether the tag may refer to control tokens, by a format or by a string that contains
                the name of one. Leave it off for untrusted tags.
            options: the fields of `JsonSchemaOptions`, for the schemas and regular expressions in the tag.

        Raises:
            SpecError: the tag is malformed, with the JSON Pointer of the error, or allows nothing.
            UnsupportedError: a part is not supported. VocabularyError: a control token that the vocabulary lacks.
        """
        if not isinstance(allow_special_tokens, bool):
            raise TypeError(f"allow_special_tokens must be True or False, not {brief(allow_special_tokens)}")
        spec, content = to_plain_with_content(spec)

        def compile_with(schema_options: JsonSchemaOptions) -> CompiledGrammar:
            def read(findings: list[Finding], explain_empty: bool = False, defer: bool = False) -> Grammar:
                return structural_tag_to_grammar(
                    spec, schema_options, allow_special_tokens=allow_special_tokens, limits=self.limits, defer=defer,
                    special_tokens=self._native.special_ids, end_tokens=self.vocabulary.end_names, findings=findings,
                    require_values=explain_empty,
                )  # fmt: skip

            key = ("structural_tag", content, isinstance(spec, str), schema_options, allow_special_tokens)
            read_deferring = partial(read, defer=True) if self._native.native.byte_complete else None
            return self._compile(key, spec, read, lambda: read([], True), read_first=read_deferring, parts=(spec,))

        return self._compile_with_fallback(compile_with, JsonSchemaOptions.of(**options))

    def compile_choice(self, choices: Sequence[str]) -> CompiledGrammar:
        """Compile a set of strings; the output is one of them."""
        alternatives: Any = read_choices(choices, self.limits)
        return self._compile(
            ("choice", alternatives), alternatives, lambda _: choice_to_grammar(alternatives, limits=self.limits)
        )

    def compile_pattern(
        self,
        pattern: Sequence[tuple[str, str]],
        char_classes: Mapping[str, Iterable[str]] | None = None,
    ) -> CompiledGrammar:
        """Compile pairs of (class or literal, "1" or "+"), see `guided.frontends.pattern`."""
        if not isinstance(pattern, Iterable):
            message = f"a pattern is a list of pairs, not a {type(pattern).__name__}"
            raise SpecError(message, hint='write [("UPPER", "+")]')
        classes = None
        if char_classes is not None:
            if not isinstance(char_classes, Mapping) or not all(isinstance(c, Iterable) for c in char_classes.values()):
                raise SpecError("char_classes is a mapping from names to characters", hint='write {"VOWEL": "aeiou"}')
            classes = {name: tuple(read_characters(name, chars)) for name, chars in char_classes.items()}
        elements = [
            tuple(element) if isinstance(element, list) else element for element in read_elements(pattern, self.limits)
        ]
        key = ("pattern", tuple(elements), None if classes is None else tuple(classes.items()))
        return self._compile(key, elements, lambda _: pattern_to_grammar(elements, classes))

    @keywords_checked(JsonSchemaKeywords.__annotations__)
    def compile_type(
        self, tp: Any, *, registry: Mapping[str, Any] | None = None, documents: Mapping[str, str] | None = None,
        **options: Unpack[JsonSchemaKeywords],
    ) -> CompiledGrammar:  # fmt: skip
        """Compile a Python type to the JSON of its values: int, Literal["a"], list[int], dataclasses, ...

        For a function, the output is an object of its arguments. `guided.frontends.python_types.type_schema` lists the
        supported types. `guided.frontends.python_types.value_readers.value_of(tp, json.loads(text))` is the inverse.
        """
        with limit_compilation(self.limits, work=False):
            compiled = self.compile_json_schema(type_to_schema(tp), registry=registry, documents=documents, **options)
        return CompiledGrammar(
            compiled.native, compiled.vocabulary, compiled.origins, "type", tp, compiled._read, compiled.findings,
            limits=compiled.limits)  # fmt: skip

    @keywords_checked(JsonSchemaKeywords.__annotations__)
    def compile_expr(self, expr: Expr, **options: Unpack[JsonSchemaKeywords]) -> CompiledGrammar:
        """Compile a composed specification, see `guided.frontends.combinators`.

        Args:
            options: defaults of `JsonSchemaOptions` for the parts; regular expressions use `classes`.

        Raises:
            SpecError: a part is invalid, a rule is undefined, or the specification generates nothing.
            VocabularyError: a control token that the vocabulary lacks.
        """
        content = content_of_parts(expr)

        def compile_with(schema_options: JsonSchemaOptions) -> CompiledGrammar:
            read = partial(expr_to_grammar, expr, self.limits, options=schema_options)
            return self._compile(
                ("expr", content, schema_options), expr, read, find_tables=lambda: stored_tables(expr, self.limits)
            )

        return self._compile_with_fallback(compile_with, JsonSchemaOptions.of(**options))


def _read_grammars(grammars: Mapping[str, Any] | None) -> tuple[dict[str, Any], tuple[object, ...]]:
    """The targets of `@name` in a Lark grammar, and their contents for the key of a cache."""
    named_grammars, contents = dict[str, Any](), list[object]()
    for name, target in check_grammars(grammars).items():
        is_schema = isinstance(target, Mapping)
        named_grammars[name], content = to_plain_with_content(target) if is_schema else (target, target)
        contents.append((name, is_schema, content))
    return named_grammars, tuple(contents)


def _single_rule(node: Any) -> Grammar:
    return node if isinstance(node, Grammar) else Grammar({"start": node})
