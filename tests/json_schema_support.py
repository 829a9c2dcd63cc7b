"""Test helpers: random small schemas, instances near them, all spellings of an instance, and samples."""

import json
from decimal import Decimal
from functools import lru_cache
from itertools import combinations, product

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import json_schema_to_grammar
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of

QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""For properties of random schemas: always the same ones by default; GUIDED_EXAMPLES=n draws n fresh ones."""

KEYS = ("a", "b", "é", "a/b~")
STRINGS = ("", "a", "ab", "é", "\U0001f600", 'q"\\', "\n\x00", "aaaa")
NUMBERS = (0, 1, 2, -1, 5, 10, 1.5, -0.25, 0.5, 100, 12.5)
DIVISORS = (1, 2, 3, 10, 0.5, 0.1, 1.5)
PATTERNS = ("a", "^a", "b$", "^a*$", "^.$", "a.")


@lru_cache(maxsize=1)
def byte_compiler():
    """A compiler whose tokens are the single bytes."""
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))


def accepts(grammar, data):
    """Whether the native core accepts all of `data`. Compiles the grammar on each call."""
    try:
        matcher = GrammarMatcher(byte_compiler().compile_grammar(grammar))
    except SpecError:  # it generates nothing
        return False
    return matcher.accept_string(data) and matcher.is_accepting()


def verdicts(schema, *values, **options):
    """Whether the schema allows each of the values, with members in any order. The language may be empty."""
    try:
        grammar = byte_compiler().compile_json_schema(schema, property_order="any", **options)
    except SpecError as error:
        assert "no JSON value" in error.message or "allows no output at all" in error.message, error
        return [False] * len(values)
    return [allows(grammar, value) for value in values]


def allows(compiled, value):
    """Whether the text of a value is in a compiled language."""
    return matches(compiled, json.dumps(value))


def matches(compiled, text):
    """Whether a text is in a compiled language; None stands for the empty language."""
    matcher = compiled and GrammarMatcher(compiled)
    return matcher is not None and matcher.accept_string(text) and matcher.is_accepting()


REFUSED = ("two equal items", "would take too many states")
"""What the complement of uniqueItems and counts that multiply leave out."""


def grammar_of(schema, options):
    """The grammar; None for an empty language. Excludes schemas that refer to themselves without end."""
    try:
        return json_schema_to_grammar(schema, options)
    except UnsupportedError as error:
        assert any(words in error.reason for words in REFUSED), error
        assume(False)
    except SpecError as error:
        assume(error.message != "the schema refers to itself without end")
        assert error.message.startswith("no JSON value"), error
        return None


def compiled(grammar, compiler=None):
    """The grammar over single bytes, or by `compiler`. None for an empty language, for example if a pattern contradicts
    a length.
    """
    try:
        return grammar and (compiler or byte_compiler()).compile_grammar(grammar)
    except SpecError:
        return None


_MARKS, _WORDS = frozenset(b'{}[]",:'), frozenset(b"abz019.-e ")


def sample(compiled, rng, most):
    """A text of the language: at most `most` bytes drawn from the masks, and then a shortest completion."""
    matcher, out = GrammarMatcher(compiled), bytearray()
    for _ in range(rng.randint(0, most)):
        allowed = mask_of(matcher)
        assert allowed, f"a dead end after {bytes(out)!r}"
        liked = rng.choice([_MARKS, _WORDS, frozenset(allowed)]).intersection(allowed)
        byte = rng.choice(sorted(liked) or allowed)
        assert matcher.accept_token(byte)
        if matcher.is_terminated():
            return out.decode()
        out.append(byte)
    rest = matcher.explain().completion
    assert matcher.accept_string(rest) and matcher.is_accepting(), (bytes(out), rest)
    return (out + rest).decode()


_scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(STRINGS), st.text(max_size=2))
values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*KEYS, "z")), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _object(draw, inner):
    schema = {"type": "object"}
    names = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    if names:
        schema["properties"] = {name: draw(inner) for name in names}
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from((*KEYS, "z")), unique=True, max_size=2))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.booleans() | inner)
    if draw(st.integers(0, 3)) == 0:
        schema["patternProperties"] = draw(st.dictionaries(st.sampled_from(PATTERNS), inner, min_size=1, max_size=2))
    if draw(st.integers(0, 4)) == 0:
        schema["propertyNames"] = draw(inner)
    for keyword in ("minProperties", "maxProperties"):
        if draw(st.integers(0, 4)) == 0:
            schema[keyword] = draw(st.integers(0, 3))
    return schema


@st.composite
def _array(draw, inner):
    schema = {"type": "array"}
    if draw(st.booleans()):
        schema["items"] = draw(st.booleans() | inner)
    if draw(st.integers(0, 2)) == 0:
        schema["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
    for keyword in ("minItems", "maxItems"):
        if draw(st.integers(0, 2)) == 0:
            schema[keyword] = draw(st.integers(0, 3))
    if draw(st.integers(0, 2)) == 0:
        schema["uniqueItems"] = True
    return schema


@st.composite
def _string(draw, patterns):
    schema = {"type": "string"}
    for keyword in ("minLength", "maxLength"):
        if draw(st.booleans()):
            schema[keyword] = draw(st.integers(0, 3))
    if patterns and draw(st.integers(0, 2)) == 0:
        schema["pattern"] = draw(st.sampled_from(PATTERNS))
    return schema


@st.composite
def _number(draw):
    schema = {"type": draw(st.sampled_from(["integer", "number"]))}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if draw(st.integers(0, 3)) == 0:
            schema[keyword] = draw(st.sampled_from(NUMBERS))
    if draw(st.integers(0, 3)) == 0:
        schema["multipleOf"] = draw(st.sampled_from(DIVISORS))
    return schema


_names = st.sampled_from((*KEYS, "z"))
_references = st.sampled_from(("#/$defs/d", "#/$defs/d", "#/$defs/e", "#"))


@st.composite
def _combined(draw, inner):
    """Applicators with siblings."""
    schema = dict(draw(inner)) if draw(st.booleans()) else {}
    if draw(st.integers(0, 4)) == 0:
        schema[draw(st.sampled_from(["unevaluatedProperties", "unevaluatedItems"]))] = draw(st.booleans() | inner)
    kinds = ["anyOf", "allOf", "oneOf", "$ref", "$ref", "untyped", "not", "if", "contains", "dependent"]
    kind = draw(st.sampled_from(kinds))
    if kind == "untyped":
        schema.pop("type", None)
    elif kind == "$ref":
        schema["$ref"] = draw(_references)
    elif kind == "not":
        schema[kind] = draw(inner)
    elif kind == "contains":
        counts = {"minContains": st.integers(0, 2), "maxContains": st.integers(0, 2)}
        schema |= draw(st.fixed_dictionaries({"contains": inner}, optional=counts))
    elif kind == "if":
        schema.update(draw(st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner})))
    elif kind == "dependent":
        schema["dependentRequired"] = draw(
            st.dictionaries(_names, st.lists(_names, unique=True, max_size=2), max_size=2)
        )
        schema["dependentSchemas"] = draw(st.dictionaries(_names, inner, max_size=1))
    else:
        schema[kind] = draw(st.lists(inner, min_size=1, max_size=3))
    return schema


def schemas(patterns=True, leaves=5):
    """Schemas of the enforced keywords; `$ref` points to them, or to `#/$defs/d` or `e`, which are always there."""
    leaf = st.one_of(
        st.sampled_from([{}, {"type": "null"}, {"type": "boolean"}, {"type": ["integer", "null"]}, {"type": "string"}]),
        _string(patterns),
        _number(),
        st.builds(lambda value: {"const": value}, values),
        st.builds(lambda items: {"enum": items}, st.lists(values, min_size=1, max_size=3)),
    )
    inner = st.recursive(leaf, lambda s: st.one_of(_object(s), _array(s), _combined(s)), max_leaves=leaves)
    return st.builds(lambda top, d, e: {**top, "$defs": {"d": d, "e": e}}, inner, inner, inner)


@st.composite
def near(draw, schema, root=None, depth=0):
    """A value that may or may not satisfy the schema."""
    root = root or schema
    if depth > 4 or isinstance(schema, bool) or draw(st.integers(0, 7)) == 0:
        return draw(values)
    if "$ref" in schema and draw(st.booleans()):
        target = root["$defs"].get(schema["$ref"][-1], root)
        return draw(near(target, root, depth + 1))
    for keyword in ("anyOf", "allOf", "oneOf", "not", "if", "then", "else"):
        if keyword in schema and isinstance(schema[keyword], dict) and draw(st.integers(0, 3)) == 0:
            return draw(near(schema[keyword], root, depth + 1))
        if keyword in schema and isinstance(schema[keyword], list) and draw(st.booleans()):
            return draw(near(draw(st.sampled_from(schema[keyword])), root, depth + 1))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "prefixItems" in schema or "items" in schema else None
    if kind == "object":
        names = draw(st.lists(st.sampled_from((*KEYS, "z", "y")), unique=True, max_size=3))
        names += [name for name in schema.get("required", ()) if name not in names and draw(st.integers(0, 4))]
        other = schema.get("additionalProperties", True)
        return {name: draw(near(schema.get("properties", {}).get(name, other), root, depth + 1)) for name in names}
    if kind == "array":
        length = draw(st.integers(0, 4))
        prefix, rest = schema.get("prefixItems", []), schema.get("items", True)
        return [draw(near(prefix[at] if at < len(prefix) else rest, root, depth + 1)) for at in range(length)]
    if kind == "string":
        return draw(st.sampled_from(STRINGS) | st.text("ab", max_size=4))
    if kind in ("integer", "number"):
        ends = [schema[k] for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in schema]
        step = schema.get("multipleOf", 1)
        near_ends = [end + change for end in ends or [3] for change in (-1, 0, 1, 0.5, step)]
        return draw(st.sampled_from(NUMBERS) | st.sampled_from([*near_ends, step, -3 * step, 7 * step]))
    return {"null": None, "boolean": True}.get(kind, draw(values))


_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


_gaps = st.sampled_from(["", "", "", " ", "\n\t ", "\r"])


@st.composite
def spellings(draw, value, numbers=False):
    """A JSON text of the value: any whitespace, any escape; with `numbers` also exponents and trailing zeros."""
    if isinstance(value, str):
        return draw(_string_spelling(value))
    if isinstance(value, list):
        items = [draw(_gaps) + draw(spellings(item, numbers)) + draw(_gaps) for item in value]
        return "[" + (",".join(items) or draw(_gaps)) + "]"
    if isinstance(value, dict):
        members = [
            draw(_gaps) + draw(_string_spelling(name)) + draw(_gaps) + ":"
            + draw(_gaps) + draw(spellings(item, numbers)) + draw(_gaps)
            for name, item in value.items()
        ]  # fmt: skip
        return "{" + (",".join(members) or draw(_gaps)) + "}"
    if numbers and isinstance(value, int | float) and not isinstance(value, bool) and draw(st.booleans()):
        return draw(_number_spelling(value))
    return json.dumps(value)


_SHIFTS = st.integers(-8, 8)
"""Exponents that every number may be written with (`REACH` in `numbers.py`)."""


@st.composite
def _number_spelling(draw, value):
    shift = draw(_SHIFTS)
    text = f"{Decimal(repr(value)).scaleb(-shift):f}"
    if draw(st.booleans()):
        text += draw(st.sampled_from(["0", "00"])) if "." in text else draw(st.sampled_from([".0", ".00"]))
    if value == 0 and text[0] != "-" and draw(st.booleans()):
        text = "-" + text
    if shift or draw(st.booleans()):
        sign = "-" if shift < 0 else draw(st.sampled_from(["", "+"]))
        text += draw(st.sampled_from("eE")) + sign + draw(st.sampled_from(["", "0"])) + str(abs(shift))
    return text


@st.composite
def _string_spelling(draw, text):
    out = []
    for char in text:
        ways = [char] if char >= " " and char not in '"\\' else []
        if char in _SHORT:
            ways.append(_SHORT[char])
        units = char.encode("utf-16-be")
        escaped = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
        ways += [escaped, escaped.upper().replace("\\U", "\\u")]
        out.append(ways[0] if draw(st.integers(0, 2)) else draw(st.sampled_from(ways)))
    return '"' + "".join(out) + '"'


def _pool():
    scalars = [None, True, False, *NUMBERS, 3, 0.1, 0.3, *STRINGS, "b", "ba"]
    few = [None, False, 0, 1, 1.5, "", "a", "ab"]
    lists = [[], *([x] for x in scalars), *map(list, product(few, few)), [1, 1, "a"], [[], []], [[1], [True], [1]]]
    names = (*KEYS, "z", "ab")
    objects = [{}, *({name: x} for name in names for x in few)]
    objects += [{one: x, two: y} for one, two in combinations(names, 2) for x, y in ((1, "a"), ("a", None), ([], {}))]
    nested = [*({"a": x} for x in ([], [1], ["a", "a"], {}, {"a": 1}, {"b": "a"})), [{}, {"a": 1}], [[{}]], [[1, "a"]]]
    return [json.dumps(value) for value in (*scalars, *lists, *objects, *nested)]


POOL = _pool()
"""Texts of small values of every kind, for any schema."""
