"""The choices that a JSON Schema leaves open: spelling, order, maxima. In: keyword arguments. Out: checked options."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack

from guided.errors import OptionError, SpecError, brief
from guided.keywords import keywords_checked_class

__all__ = ["DEFAULTS", "DRAFTS", "JsonSchemaKeywords", "JsonSchemaOptions", "copy_registry"]

DRAFTS = ("draft4", "draft6", "draft7", "2019-09", "2020-12")

_CHOICES = {
    "property_order": ("declared", "any"),
    "numbers": ("json", "plain", "plain_integers"),
    "constants": ("json", "plain"),
    "classes": ("full", "plain"),
    "format": ("assert", "annotate"),
    "unknown_format": ("warn", "refuse", "ignore"),
}


class JsonSchemaKeywords(TypedDict, total=False):
    """The fields of `JsonSchemaOptions`, as keyword arguments of functions."""

    whitespace: str
    separators: tuple[str, str] | None
    indent: int | str | None
    surrounding_whitespace: bool
    property_order: Literal["declared", "any"]
    additional_properties: bool | Literal["minimal"] | None
    numbers: Literal["json", "plain", "plain_integers"]
    escapes: str
    constants: Literal["json", "plain"]
    classes: Literal["full", "plain"]
    format: Literal["assert", "annotate"]
    unknown_format: Literal["warn", "refuse", "ignore"]
    strict: bool
    max_string: int | None
    max_items: int | None
    max_digits: int | None
    draft: str | None


@keywords_checked_class()
@dataclass(frozen=True, slots=True, repr=False)
class JsonSchemaOptions:
    r"""How the instances of a schema are written. Everything that a schema allows is accepted, unless an option narrows
    it.

    `JsonSchemaOptions.for_generation()` has the options for generation.

    Attributes:
        whitespace: the whitespace between JSON tokens: "json" (any JSON whitespace), "single_space" (`, ` and `: `),
            "compact" (none), or a regular expression for every gap. Only the regular expression's matches that are JSON
            whitespace count.
        separators: (item, key) separators exactly as in `json.dumps`, or regular expressions. Only matches that consist
            of the separator character with JSON whitespace around it count. With this option, there is no whitespace
            inside brackets. Exception: if `whitespace` is also a regular expression, it applies to the gaps around
            separators and inside brackets.
        indent: line breaks and indentation exactly as `json.dumps` writes them; nesting must be bounded.
        surrounding_whitespace: allow whitespace before and after the whole value, too: any JSON whitespace or, if
            `whitespace` is a regular expression and `separators` is None, its matches.
        property_order: "declared" (`properties` in their order, then other required keys, then additional ones) or
            "any".
        additional_properties: the additional members that an object may have if its schema does not mention them.
            None: any, as JSON Schema defines. False: none, so every object schema is closed. "minimal": none if the
            schema names members, unless that would leave no value (`text/narrow.py`). True: like None.
        numbers: "json" (every spelling; `text/numbers.py` states the exceptions), "plain" (no exponent, no negative
            zero; an integer has no fraction; a constant has its shortest spelling) or "plain_integers" (an integer has
            neither fraction nor exponent; a constant has its shortest spelling; other numbers have every spelling).
        escapes: "json" (every spelling of a character in a string) or "minimal" (only the spelling of
            `json.dumps(ensure_ascii=False)`: a character stands for itself, except for `\" \\ \b \f \n \r \t`, and
            `\u00xx` in lower case for the other controls). With "minimal", keys and constants have one spelling each,
            so their text is forced. Any other value lists the letters that may follow a backslash, such as
            `"\\bfnrtu`. Then control characters, including DEL, are never written raw; `u` allows `\u00xx` for them,
            and `U` allows `\uXXXX` for any character.
        constants: "json" (spelled like other values) or "plain" (keys that the schema names, and the values of `const`
            and `enum`, have one spelling, with "plain" numbers and "minimal" escapes, regardless of other options).
        classes: character classes in patterns: "full" (\s as in ECMA-262) or "plain" (\s in ASCII only).
        format: "assert" (enforce formats, and draft 7's `contentEncoding: base64` and `contentMediaType:
            application/json`) or "annotate" (enforce none of them). In other drafts, these two keywords are never
            enforced.
        unknown_format: how to treat formats that cannot be enforced: "warn" (`GuidedWarning`), "refuse" or "ignore".
        strict: raise an error instead of a warning (for unknown formats and keywords, and keywords without effect).
        max_string: the maximum number of characters of strings and additional keys that the schema does not spell out.
        max_items: the maximum number of items of an array, and of additional members of an object.
        max_digits: the maximum number of digits before the decimal point, after it, and in the exponent.
        draft: the dialect of a schema without `$schema`, or whose `$schema` is not known; None means "2020-12".

    Raises:
        OptionError: an option is out of range, has the wrong type, or contradicts another one.
    """

    whitespace: str = "json"
    separators: tuple[str, str] | None = None
    indent: int | str | None = None
    surrounding_whitespace: bool = False
    property_order: Literal["declared", "any"] = "declared"
    additional_properties: bool | Literal["minimal"] | None = None
    numbers: Literal["json", "plain", "plain_integers"] = "json"
    escapes: str = "json"
    constants: Literal["json", "plain"] = "json"
    classes: Literal["full", "plain"] = "full"
    format: Literal["assert", "annotate"] = "assert"
    unknown_format: Literal["warn", "refuse", "ignore"] = "warn"
    strict: bool = False
    max_string: int | None = None
    max_items: int | None = None
    max_digits: int | None = None
    draft: str | None = None

    @classmethod
    def of(cls, **options: Unpack[JsonSchemaKeywords]) -> JsonSchemaOptions:
        """The options with these values. Unlike the constructor, it caches the result, so equal arguments are checked
        only once.
        """
        try:
            return _make_cached_options(**options)
        except TypeError:  # a value that cannot be hashed, or an unknown name: the constructor raises the right error
            return cls(**options)

    @classmethod
    def for_generation(cls, **changes: Unpack[JsonSchemaKeywords]) -> JsonSchemaOptions:
        """Options for generation: the subset of the allowed spellings that small models write best.

        One space after `,` and `:`; numbers and characters in their plainest spelling; ASCII digits and spaces in
        patterns; objects that declare members have no others, unless the schema mentions them. Keyword arguments
        override these options.

        Examples:
            >>> JsonSchemaOptions.for_generation(indent=2, max_items=5)
            JsonSchemaOptions(indent=2, additional_properties='minimal', numbers='plain', escapes='minimal', \
classes='plain', max_items=5)
        """
        return _GENERATION.with_changes(**changes)

    def with_changes(self, **changes: Unpack[JsonSchemaKeywords]) -> JsonSchemaOptions:
        """A copy of these options with these changes. `whitespace` determines every gap, and so do `separators`
        and `indent`. So changing `whitespace` resets the other two, and vice versa.
        """
        reset: set[str] = {"separators", "indent"} if "whitespace" in changes else set()
        if {"separators", "indent"} & changes.keys():
            reset.add("whitespace")
        unchanged_options = {name: value for name, value in self.non_defaults().items() if name not in reset}
        return JsonSchemaOptions(**{**unchanged_options, **changes})  # type: ignore[arg-type]

    def non_defaults(self) -> JsonSchemaKeywords:
        """The options that differ from the defaults, as keyword arguments."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: value for name, value, default in values if value != default}  # type: ignore[return-value]

    def changed(self, **changes: Unpack[JsonSchemaKeywords]) -> JsonSchemaOptions:
        """Deprecated: use `with_changes`."""
        message = "JsonSchemaOptions.changed is JsonSchemaOptions.with_changes"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.with_changes(**changes)

    def given(self) -> JsonSchemaKeywords:
        """Deprecated: use `non_defaults`."""
        message = "JsonSchemaOptions.given is JsonSchemaOptions.non_defaults"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.non_defaults()

    def __repr__(self) -> str:
        return f"JsonSchemaOptions({', '.join(f'{name}={value!r}' for name, value in self.non_defaults().items())})"

    def __post_init__(self) -> None:
        for option, is_valid, problem, hint in _CHECKS:
            if not is_valid(getattr(self, option)):
                raise self._make_error(option, problem, hint=hint)
        if self.separators is not None:
            object.__setattr__(self, "separators", self._check_separators(self.separators))
        fixes_gaps = self.indent is not None or (self.separators is not None and self.whitespace in _FIXED_GAPS)
        if fixes_gaps and self.whitespace != "json":
            raise OptionError(
                "options separators and indent determine every gap, so whitespace cannot be set as well",
                hint="leave whitespace at its default",
            )

    def _make_error(self, name: str, problem: str, *, hint: str = "") -> OptionError:
        return OptionError(f"option {name}={brief(getattr(self, name))} {problem}", option=name, hint=hint)

    def _check_separators(self, pair: object) -> tuple[str, str]:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise self._make_error("separators", "is not a pair of strings", hint="such as (', ', ': ')")
        for text, separator in zip(pair, ",:", strict=True):
            if separator not in text or (_LITERAL_SEPARATOR.fullmatch(text) and separator != text.strip(" \t\n\r")):
                message = f"separator {brief(text)} is not {brief(separator)} with JSON whitespace around it"
                raise OptionError(message, option="separators")
        return (pair[0], pair[1])


class _Check(NamedTuple):
    """A check of one option. Messages consist of the option, its value and `problem`."""

    option: str
    is_valid: Callable[[Any], bool]
    problem: str
    hint: str = ""


def _has_known_escapes(escapes: object) -> bool:
    return isinstance(escapes, str) and (escapes in ("json", "minimal") or set(escapes) <= set('"\\/bfnrtuU'))


def _is_known_whitespace(whitespace: str) -> bool:
    """Whether it has a known name, or is not a name."""
    return whitespace in _FIXED_GAPS or not re.fullmatch(r"[\w-]+", whitespace)


def _is_maximum(minimum: int, maximum: object) -> bool:
    return maximum is None or (isinstance(maximum, int) and not isinstance(maximum, bool) and maximum >= minimum)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _has_valid_width(indent: int | str | None) -> bool:
    return (len(indent) if isinstance(indent, str) else indent or 0) <= _MAX_INDENT


_MAX_INDENT = 1_000  # characters
_FIXED_GAPS = ("json", "single_space", "compact")
_LITERAL_SEPARATOR = re.compile(r"[ \t\n\r]*[,:][ \t\n\r]*")
_CHECKS: Final = (  # a check relies on those before it
    *(
        _Check(option, choices.__contains__, "is unknown", f"one of {', '.join(choices)}")
        for option, choices in _CHOICES.items()
    ),
    _Check(
        "escapes",
        _has_known_escapes,
        "is unknown",
        'use json, minimal, or the letters that may follow a backslash, out of "\\/bfnrtuU',
    ),
    _Check("draft", (None, *DRAFTS).__contains__, "is unknown", f"one of {', '.join(DRAFTS)}"),
    *(
        _Check(option, partial(_is_maximum, minimum), f"is not an integer of at least {minimum}")
        for option, minimum in (("max_string", 0), ("max_items", 0), ("max_digits", 1))
    ),
    _Check("surrounding_whitespace", _is_flag, "is not True or False"),
    _Check("strict", _is_flag, "is not True or False"),
    _Check(
        "additional_properties",
        lambda value: isinstance(value, bool | None) or value == "minimal",
        "is not True, False, None or 'minimal'",
    ),
    _Check("whitespace", lambda value: isinstance(value, str), "is not a string"),
    _Check(
        "whitespace",
        _is_known_whitespace,
        "is unknown",
        f"one of {', '.join(_FIXED_GAPS)}, or a regular expression that matches whitespace",
    ),
    _Check(
        "indent",
        lambda value: isinstance(value, int | str | None) and not isinstance(value, bool),
        "is not an integer or a string of whitespace",
    ),
    _Check("indent", _has_valid_width, f"is more than {_MAX_INDENT:,} characters wide"),
    _Check(
        "indent",
        lambda value: not isinstance(value, str) or re.fullmatch(r"[ \t\n\r]*", value) is not None,
        "is not JSON whitespace",
    ),
)


@lru_cache(maxsize=64, typed=True)  # typed: strict=1 is an error, although 1 == True
def _make_cached_options(**options: Unpack[JsonSchemaKeywords]) -> JsonSchemaOptions:
    return JsonSchemaOptions(**options)


DEFAULTS = JsonSchemaOptions()
_GENERATION = JsonSchemaOptions(
    whitespace="single_space", numbers="plain", escapes="minimal", classes="plain", additional_properties="minimal"
)


def copy_registry(registry: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of a caller's registry (URI -> schema). Raises SpecError if it is not a mapping with string keys."""
    if registry is None:
        return {}
    hint = 'write {"https://example.org/part": {...}}'
    if not isinstance(registry, Mapping):
        raise SpecError(f"registry must be a mapping from URIs to schemas, not a {type(registry).__name__}", hint=hint)
    for uri in registry:
        if not isinstance(uri, str):
            raise SpecError(f"registry: the URI {brief(uri)} is not a string", hint=hint)
    return dict(registry)
