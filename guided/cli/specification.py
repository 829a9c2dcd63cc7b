"""The specification on the command line: --schema, --type, --regex, --lark, --gbnf, --grammar, and so on.

In: parsed arguments. Out: a `Specification`, which can be compiled for a vocabulary. Options for another kind of
specification are refused, never ignored.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

from guided.cli.console import InputError, Progress, parse_json, read_text
from guided.cli.kinds import OPTIONS_OF, to_flag
from guided.frontends.json_schema.options import DEFAULTS, DRAFTS, JsonSchemaKeywords, JsonSchemaOptions
from guided.frontends.lark.indentation import INDENTERS
from guided.frontends.library import grammar, library
from guided.frontends.pattern import CLASS_NAMES
from guided.frontends.python_types.type_schema import type_to_schema
from guided.matching import CompiledGrammar, GrammarCompiler

__all__ = [
    "GENERATION",
    "Specification",
    "add_specification",
    "read_specification",
    "specification_options",
]

_LARK_RULE: Final = re.compile(r"^[^\S\n]*+[?!_]*+[a-z]\w*+(\.-?\d++)?\s*+(\{[^{}]*\}\s*+)?:(?!\\|//)", re.MULTILINE)
GENERATION: Final = JsonSchemaOptions.for_generation()


@dataclass(frozen=True)
class Specification:
    """The constraint on the output.

    Attributes:
        kind: "schema", "regex", "lark", "gbnf", "grammar", "structural_tag", "choice" or "pattern".
        value: the text of a schema, regular expression, grammar or structural tag; a list of choices or of pairs.
        options: the options that are set, by their Python names.
        import_paths: the folder of a Lark grammar, which is searched for its imports.
    """

    kind: str
    value: Any
    options: dict[str, Any]
    import_paths: tuple[str, ...] = ()

    def compile(self, compiler: GrammarCompiler, base: JsonSchemaOptions = DEFAULTS) -> CompiledGrammar:
        """Compile the specification. `base`: defaults for options that the command line does not set."""
        with Progress("compiling"):
            return self.compile_quietly(compiler, base)

    def compile_quietly(self, compiler: GrammarCompiler, base: JsonSchemaOptions = DEFAULTS) -> CompiledGrammar:
        """Like `compile`, but without a progress line."""
        match self.kind:
            case "schema":
                options = self.schema_options(base).non_defaults()
                return compiler.compile_json_schema(
                    self.value, registry=self.registry, documents=self.documents, **options
                )
            case "regex":
                return compiler.compile_regex(self.value, **{"classes": base.classes, **self.options})
            case "lark":
                return compiler.compile_lark(self.value, import_paths=self.import_paths, **self.options)
            case "grammar":
                return compiler.compile(grammar(self.value))
            case "gbnf":
                return compiler.compile_gbnf(self.value, **self.options)
            case "structural_tag":
                allow_special_tokens = self.options.get("allow_special_tokens", False)
                schema_options = self.schema_options(base).non_defaults()
                return compiler.compile_structural_tag(
                    self.value, allow_special_tokens=allow_special_tokens, **schema_options
                )
            case "choice":
                return compiler.compile_choice(self.value)
            case _:
                return compiler.compile_pattern(self.value)

    @property
    def registry(self) -> Mapping[str, Any] | None:
        """URI -> schema, for references to other documents."""
        registry: Mapping[str, Any] | None = self.options.get("registry")
        return registry

    @property
    def documents(self) -> Mapping[str, str] | None:
        """Name -> text, for `x-guided-quote`."""
        documents: Mapping[str, str] | None = self.options.get("documents")
        return documents

    def schema_options(self, base: JsonSchemaOptions = DEFAULTS) -> JsonSchemaOptions:
        """The options for schemas: the set options on top of `base`."""
        return base.with_changes(
            **{name: value for name, value in self.options.items() if name in JsonSchemaKeywords.__annotations__}
        )


def add_specification(parser: argparse.ArgumentParser, *, required: bool, generating: bool) -> None:
    """Add the options that give a specification, and the options that define its interpretation."""
    group = parser.add_argument_group("specification" if required else "specification (default: free text)")
    kinds = group.add_mutually_exclusive_group(required=required)
    kinds.add_argument(
        "--schema", metavar="FILE", help="a JSON Schema: a file, - for standard input, or its text {...}"
    )
    kinds.add_argument(
        "--type",
        metavar="MODULE:NAME",
        help="a Python type, such as a pydantic model, that is used as a schema; its module is imported",
    )
    kinds.add_argument("--regex", metavar="PATTERN", help="a regular expression; the whole text must match")
    kinds.add_argument(
        "--lark",
        metavar="FILE",
        help="a Lark grammar: a file, - for standard input, or its text 'start: ...'",
    )
    kinds.add_argument(
        "--gbnf",
        metavar="FILE",
        help="a GBNF grammar, as in llama.cpp and xgrammar: a file, - for standard input, or its text 'root ::= ...'",
    )
    kinds.add_argument(
        "--grammar", metavar="NAME", help="a grammar that comes with guided, such as json; see --list-grammars"
    )
    kinds.add_argument(
        "--structural-tag",
        metavar="FILE",
        help="a structural tag, as in xgrammar and vLLM: a file, - for standard input, or its text {...}",
    )
    kinds.add_argument(
        "--choice", metavar="A,B", help=r"one of these strings; write \, for a comma and \\ for a backslash"
    )
    kinds.add_argument(
        "--pattern",
        metavar="PARTS",
        help=f"a sequence of classes ({', '.join(CLASS_NAMES)}) and characters; a + after one means one or more: "
        "'UPPER+ : SPACE LOWER+'",
    )
    group.add_argument("--dialect", choices=("python", "ecma"), help="the dialect of --regex (default: python)")
    group.add_argument(
        "--search", action="store_true", default=None, help="for --regex: the text need only contain a match"
    )
    classes = (GENERATION if generating else DEFAULTS).classes
    group.add_argument(
        "--classes",
        choices=("full", "plain"),
        help=r"the meaning of \d \s \w in --regex, and in patterns of --schema. full: as in the dialect; plain: only "
        f"ASCII digits and spaces (default: {classes})",
    )
    group.add_argument("--list-grammars", action=_ListGrammars, nargs=0, help="list the names for --grammar, and exit")
    _add_lark_options(group)
    group.add_argument("--root", metavar="RULE", help="the start rule of --gbnf (default: root)")
    group.add_argument(
        "--allow-special-tokens",
        action="store_true",
        default=None,
        help="let --lark, --gbnf, --structural-tag name control tokens, such as <|call|>; not for untrusted input",
    )
    _add_schema_options(parser, generating)


def _add_lark_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--start", metavar="RULE", help="the start rule of --lark (default: start)")
    group.add_argument(
        "--semantics",
        choices=("lexer", "scannerless"),
        help="for --lark. lexer: terminals take their longest match; scannerless: any split into terminals counts "
        "(default: lexer, unless the grammar has extensions that need scannerless)",
    )
    group.add_argument(
        "--lexer",
        choices=("contextual", "basic"),
        help="the lexer of --lark tries the terminals that a rule can accept, or all of them (default: contextual)",
    )
    group.add_argument(
        "--postlex", choices=INDENTERS, help="for --lark: make indentation significant, as with Lark's PythonIndenter"
    )
    group.add_argument(
        "--grammars",
        metavar="FILE",
        help="a JSON file {name: text or schema, ...} with the grammars that --lark refers to as @name",
    )


class _ListGrammars(argparse.Action):
    """Prints the names and titles of the grammars, and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for entry in library().values():
            print(f"{entry.name:14}{entry.title}")
        parser.exit()


def _add_schema_options(parser: argparse.ArgumentParser, generating: bool) -> None:
    defaults = GENERATION if generating else DEFAULTS
    spacing, numbers, escapes, constants = defaults.whitespace, defaults.numbers, defaults.escapes, defaults.constants
    default_members = "none in objects that declare members" if generating else "any members"
    group = parser.add_argument_group("JSON (--schema)")
    add = group.add_argument
    add(
        "--whitespace",
        metavar="HOW",
        help=f"json (any), single_space, compact, or a regex for each gap (default: {spacing})",
    )
    add("--separators", nargs=2, metavar=("ITEM", "KEY"), help="exactly these separators, as in json.dumps")
    add("--indent", type=int, metavar="N", help="line breaks and indentation, as in json.dumps")
    add("--surrounding-whitespace", action="store_true", default=None, help="allow whitespace around the value, too")
    add("--property-order", choices=("declared", "any"), help="the order of members in objects (default: declared)")
    members = group.add_mutually_exclusive_group()
    members.add_argument("--closed", dest="additional_properties", action="store_false", default=None,
        help=f"no additional members where the schema does not mention them (default: {default_members})")  # fmt: skip
    members.add_argument("--open", dest="additional_properties", action="store_true", default=None,
        help="additional members wherever the schema allows them")  # fmt: skip
    add("--numbers", choices=("json", "plain", "plain_integers"),
        help="json: any spelling; plain: no exponents; plain_integers: no exponents in integers "
        f"(default: {numbers})")  # fmt: skip
    add(
        "--escapes",
        choices=("json", "minimal"),
        help=f"in strings. json: any escape; minimal: only the shortest spelling (default: {escapes})",
    )
    add(
        "--constants",
        choices=("json", "plain"),
        help=f"names, const, enum. json: any spelling; plain: only one (default: {constants})",
    )
    add(
        "--format",
        choices=("assert", "annotate"),
        help="assert: enforce format and draft 7's content keywords; annotate: do not (default: assert)",
    )
    add(
        "--unknown-format", choices=("warn", "refuse", "ignore"), help="what to do with unknown formats (default: warn)"
    )
    add("--strict", action="store_true", default=None,
        help="turn warnings into errors: unknown keywords and formats, keywords without effect")  # fmt: skip
    add("--max-string", type=int, metavar="N", help="maximum length of strings, where the schema sets none")
    add("--max-items", type=int, metavar="N", help="maximum number of items of arrays, where the schema sets none")
    add("--max-digits", type=int, metavar="N", help="maximum number of digits in each part of a number")
    add("--draft", choices=DRAFTS, help="the draft of a schema without $schema (default: 2020-12)")
    add("--registry", metavar="FILE", help="a JSON file {URI: schema, ...} with documents that the schema refers to")
    add("--documents", metavar="FILE", help="a JSON file {name: text, ...} for x-guided-quote in the schema")


def specification_options(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """The options on the command line for specifications of this kind."""
    options = {name: value for name in OPTIONS_OF.get(kind, ()) if (value := getattr(arguments, name)) is not None}
    forms = {
        "registry": "{URI: schema, ...}",
        "documents": "{name: text, ...}",
        "grammars": "{name: text or schema, ...}",
    }
    for name, form in forms.items():
        if name in options:
            options[name] = _read_object(name, options[name], form)
    return options


def _read_object(name: str, file: str, form: str) -> dict[str, Any]:
    value = parse_json(read_text(file), file, f"the file of {to_flag(name)}")
    if not isinstance(value, dict):
        raise InputError(f"{to_flag(name)} {file} is not an object of the form {form}")
    return value


def read_specification(arguments: argparse.Namespace, *, allows_other_kinds: bool = False) -> Specification | None:
    """The specification on the command line; None if there is none.

    `allows_other_kinds`: accept options for all kinds, since the lines of a batch may contain other kinds.

    Raises:
        InputError: a file cannot be read, or an option belongs to another kind of specification.
    """
    kinds = ("schema", "type", "regex", "lark", "gbnf", "grammar", "structural_tag", "choice", "pattern")
    kind = next((name for name in kinds if getattr(arguments, name) is not None), "")
    options = specification_options(arguments, "schema" if kind == "type" else kind)
    for name in dict.fromkeys(name for names in OPTIONS_OF.values() for name in names):
        if getattr(arguments, name) is not None and name not in options and not allows_other_kinds:
            required_flags = " or ".join(to_flag(kind) for kind, names in OPTIONS_OF.items() if name in names)
            explanation = f", not to {to_flag(kind)}" if kind else ", which is not given"
            raise InputError(f"{to_flag(name, getattr(arguments, name))} belongs to {required_flags}{explanation}")
    if not kind:
        return None
    text: str = getattr(arguments, kind)
    value: object = text
    folders: tuple[str, ...] = ()
    if kind in ("schema", "structural_tag"):
        value = _read_json_text(text, "a schema" if kind == "schema" else "a structural tag")
    elif kind == "type":
        kind, value = "schema", json.dumps(type_to_schema(_import(text)))
    elif kind == "lark":
        if not _LARK_RULE.search(text):
            folders = () if text == "-" else (str(Path(text).resolve().parent),)
            value = read_text(text, "a grammar on the command line must contain a rule, name: ...")
    elif kind == "gbnf":
        value = (
            text
            if "::=" in text
            else read_text(text, "a grammar on the command line must contain a rule, name ::= ...")
        )
    elif kind == "choice":
        value = _parse_choices(text)
    elif kind == "pattern":
        value = _parse_pairs(text)
    return Specification(kind, value, options, folders)


def _import(name: str) -> Any:
    """Import the object MODULE:NAME. Modules in the current folder are found, too."""
    module, _, path = name.partition(":")
    if not module or not path or module.startswith("."):
        raise InputError(f"--type {name} is not of the form MODULE:NAME, such as orders:Order")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        value: Any = import_module(module)
        for attribute in path.split("."):
            value = getattr(value, attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"--type {name}: {error}") from None
    except Exception as error:  # raised by the module's own code
        frame = extract_tb(error.__traceback__)[-1]
        location = (
            "" if frame.filename.startswith("<") else f" ({frame.filename}, line {frame.lineno})"
        )  # not for a frame of `<frozen importlib>`
        reason = f"{module} cannot be imported: {type(error).__name__}: {error}{location}"
        raise InputError(f"--type {name}: {reason}") from None
    return value


def _read_json_text(argument: str, description: str) -> str:
    """The text of a JSON object: the argument itself, or the content of a file."""
    if argument.lstrip().startswith("{"):
        return argument
    text = read_text(argument, f"{description} on the command line must begin with {{")
    if not text.strip():
        raise InputError(
            f"{'standard input' if argument == '-' else argument} is empty, but must contain {description}"
        )
    return text


def _parse_choices(text: str) -> list[str]:
    r"""The strings between commas; a backslash escapes the next character."""
    choices, characters = [""], iter(text)
    for char in characters:
        if char == ",":
            choices.append("")
            continue
        if char == "\\" and not (char := next(characters, "")):
            raise InputError(r"--choice ends with a single backslash; write \\ for a backslash")
        choices[-1] += char
    return choices


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    for item in text.split():
        is_repeated = len(item) > 1 and item.endswith("+")
        pairs.append((item[:-1] if is_repeated else item, "+" if is_repeated else "1"))
    return pairs
