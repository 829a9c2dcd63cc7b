"""The facade compared with the installed xgrammar: the same texts and masks, if xgrammar is right."""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import guided.compat.xgrammar as xgr
from tests.effort import examples
from tests.xgrammar_samples import SAMPLES, Sample, grammar_of
from tests.xgrammar_version import XGRAMMAR

theirs = pytest.importorskip("xgrammar", reason="the oracle is the installed xgrammar")
jsonschema = pytest.importorskip("jsonschema")
torch = pytest.importorskip("torch")

TOKENS = [bytes([byte]) for byte in range(256)]
TOKENS += [b"</s>", b"ab", b'": ', b'{"', b'", "', b"true", "中".encode(), b"<t", b"12", b""]
STOP = 256
OURS, THEIRS = (lib.TokenizerInfo(TOKENS, stop_token_ids=[STOP], vocab_size=300) for lib in (xgr, theirs))
QUIET = pytest.mark.filterwarnings("ignore:not enforced")


def accepts(library: Any, grammar: Any, text: str) -> bool:
    return bool(library.testing._is_grammar_accept_string(grammar, text))


@QUIET
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.kind} {str(sample.specification)[:50]}")
def test_samples_match_xgrammar(sample: Sample) -> None:
    ours, other = grammar_of(xgr, sample), grammar_of(theirs, sample)
    for text, expected in [*((text, True) for text in sample.accepted), *((text, False) for text in sample.refused)]:
        if sample.options.get("any_order") and not expected:
            continue  # xgrammar does not check for missing members
        assert accepts(xgr, ours, text) == accepts(theirs, other, text) == expected, text


@pytest.mark.parametrize("max_whitespace_cnt", [None, 2])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (",", ": "), (" ,", " : "), (";", "=")])
def test_separators_with_white_space_around_them(separators: tuple[str, str], max_whitespace_cnt: int | None) -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"items": {"type": "null"}, "type": "array"}}}
    options: Any = {"separators": separators, "max_whitespace_cnt": max_whitespace_cnt}
    other = theirs.Grammar.from_json_schema(schema, **options)
    if separators == (";", "="):  # this is not JSON
        with pytest.raises(RuntimeError, match="separator ';' is not ','"):
            xgr.Grammar.from_json_schema(schema, **options)
        return
    ours = xgr.Grammar.from_json_schema(schema, **options)
    seen = set()
    for comma, colon, inner in product(
        (",", ", ", " ,\t", "  ,\t", ",    "), (":", ": ", "  : ", ":   "), ("", " ", "   ")
    ):
        text = f'{{{inner}"a"{colon}1{comma}"b"{colon}[{inner}null{comma}null{inner}]{inner}}}'
        assert accepts(xgr, ours, text) == accepts(theirs, other, text), text
        seen.add(accepts(xgr, ours, text))
    assert True in seen and len(seen) == 2 - (separators == (",", ":") and max_whitespace_cnt is None)


WHITE_SPACE = "\t\n\v\f\r \xa0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


@pytest.mark.parametrize("pattern", [r"\s", r"[\s]", r"[a\s]", r"\S", r"[^\s]", r"[^a\s]"])
@pytest.mark.parametrize("kind", ["regex", "tag", "schema in a tag", "ebnf", "lark"])
def test_white_space_in_patterns(kind: str, pattern: str) -> None:
    def make(library: Any) -> Any:
        match kind:
            case "regex":
                return library.Grammar.from_regex(pattern)
            case "ebnf":
                return library.Grammar.from_ebnf(f"root ::= Regex({json.dumps(pattern)})")
            case "lark":
                return library.Grammar.from_lark(f"start: /{pattern}/")
            case "tag":
                form: Any = {"type": "regex", "pattern": pattern}
            case _:
                schema = {"type": "string", "pattern": f"^{pattern}$"}
                form = {"type": "json_schema", "style": "qwen_xml", "json_schema": schema}
        return library.Grammar.from_structural_tag({"type": "structural_tag", "format": form})

    ours, other = make(xgr), make(theirs)
    is_white = {r"\s": True, r"[\s]": True, r"[a\s]": True}.get(pattern, False)
    for char in [*WHITE_SPACE, "x", "\x85", "\u180e", "\u200b"]:
        expected = (char in WHITE_SPACE) == is_white
        assert accepts(xgr, ours, char) == expected, repr(char)
        if XGRAMMAR >= (0, 2, 9):
            assert accepts(theirs, other, char) == expected, repr(char)


def masks(matchers: tuple[Any, Any]) -> list[list[int]]:
    """The rejected tokens of each."""
    out = []
    for library, matcher in zip((xgr, theirs), matchers, strict=True):
        bitmask = library.allocate_token_bitmask(1, 300)
        need = matcher.fill_next_token_bitmask(bitmask)
        rejected = library.testing._get_masked_tokens_from_bitmask(bitmask, 300)
        assert need == bool(rejected)
        out.append(rejected)
    return out


@QUIET
@pytest.mark.parametrize("sample", [one for one in SAMPLES if not one.masks_differ and one.kind != "from_lark"],
                         ids=lambda sample: f"{sample.kind} {str(sample.specification)[:50]}")  # fmt: skip
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=st.lists(st.integers(0, 10**6), max_size=12))
def test_walks_have_the_same_masks(sample: Sample, choices: list[int]) -> None:
    grammars = grammar_of(xgr, sample), grammar_of(theirs, sample)
    compilers = xgr.GrammarCompiler(OURS), theirs.GrammarCompiler(THEIRS)
    matchers = (
        xgr.GrammarMatcher(compilers[0].compile_grammar(grammars[0])),
        theirs.GrammarMatcher(compilers[1].compile_grammar(grammars[1])),
    )
    for choice in choices:
        ours, other = masks(matchers)
        assert ours == other
        assert matchers[0].find_jump_forward_string() == matchers[1].find_jump_forward_string()
        allowed = sorted(set(range(300)) - set(ours))
        token = allowed[choice % len(allowed)]
        if token == STOP and len(allowed) > 1:
            token = allowed[0]
        assert matchers[0].accept_token(token) == matchers[1].accept_token(token) is True
        assert matchers[0].is_terminated() == matchers[1].is_terminated()
        if matchers[0].is_terminated():
            break
        assert matchers[0].is_completed() == matchers[1].is_completed()


NAMES = st.sampled_from(["a", "b", "name", "é"])
LEAVES = st.sampled_from([
    {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"},
    {"enum": ["x", 1]},
    {"const": [1, "y"]}, {"type": "integer", "minimum": -3, "maximum": 40}, {"type": "string", "maxLength": 3}, {},
])  # fmt: skip


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        names = [name for name in properties if name in required]
        return {"type": "object", "properties": properties, "required": names}

    return st.builds(made, st.dictionaries(NAMES, inner, min_size=1, max_size=3), st.lists(NAMES, max_size=3))


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        objects(inner)
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-50, 50) | st.sampled_from(["", "x", "é\n", "long"]) | st.just(1.5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
SPELLINGS = ({}, {"any_whitespace": False}, {"strict_mode": False}, {"max_whitespace_cnt": 1},
             {"any_whitespace": False, "separators": (",", ":")})  # fmt: skip


@QUIET
@examples(60)
@given(schema=SCHEMAS, value=VALUES, options=st.sampled_from(SPELLINGS), ascii=st.booleans())
def test_right_texts_of_xgrammar_are_accepted_and_nothing_wrong_is(
    schema: Any, value: Any, options: dict[str, Any], ascii: bool
) -> None:
    separators = options.get("separators", (", ", ": "))
    text = json.dumps(value, ensure_ascii=ascii, separators=separators)
    is_right = jsonschema.Draft202012Validator(schema).is_valid(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = accepts(xgr, xgr.Grammar.from_json_schema(schema, **options), text)
        other = accepts(theirs, theirs.Grammar.from_json_schema(schema, **options), text)
    assert is_right or not ours
    assert ours or not (other and is_right)
    if options.get("strict_mode") is False and not ascii:
        assert ours == is_right


@pytest.mark.parametrize("kind", list(xgr.VocabType))
def test_tokens_are_decoded_as_in_xgrammar(kind: xgr.VocabType) -> None:
    spelled = ["▁a", "<0x1B>", "Ġhello", "ä½ł", "a b", "", "</s>", "<|eot_id|>", "\u0143", "1▁2"]
    ours = xgr.TokenizerInfo(spelled, kind, vocab_size=12)
    other = theirs.TokenizerInfo(spelled, theirs.VocabType[kind.name], vocab_size=12)
    assert ours.decoded_vocab == other.decoded_vocab
    assert ours.stop_token_ids == other.stop_token_ids
    assert ours.special_token_ids == other.special_token_ids
    assert json.loads(ours.dump_metadata()) == json.loads(other.dump_metadata())
    stored, stored_there = json.loads(ours.serialize_json()), json.loads(other.serialize_json())
    del stored["__VERSION__"], stored_there["__VERSION__"]
    assert stored == stored_there
    assert xgr.TokenizerInfo.deserialize_json(other.serialize_json()).decoded_vocab == ours.decoded_vocab


def test_trees_of_drafts_have_the_same_masks() -> None:
    text = 'root ::= ("ab" | "ac") [0-9]+'
    arrays = ([1, -1, 3, -1, -1], [-1, 2, -1, 4, -1], [0, ord("z"), ord("a"), ord("b"), ord("c")])
    edges = [torch.tensor(one, dtype=torch.int64) for one in arrays]
    filled = []
    for library, info in ((xgr, OURS), (theirs, THEIRS)):
        matcher = library.GrammarMatcher(library.GrammarCompiler(info).compile_grammar(text))
        rows = library.allocate_token_bitmask(5, 300)
        assert matcher.traverse_draft_tree(*edges, rows)
        filled.append(rows.numpy())
    assert np.array_equal(filled[0], filled[1])
