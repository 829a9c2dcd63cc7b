"""The built-in grammars: their samples, and texts generated with them, judged by other parsers."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import unicodedata
import warnings
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import guided
import guided.frontends.library as library_module
from guided.errors import SpecError
from guided.frontends.lark import LarkOptions, alphabet, read_lark
from guided.frontends.regex import python_escapes, python_syntax
from guided.frontends.stored import read_container
from guided.levels import PLAY_SCRIPT
from guided.tools.calculator import calculate
from tests.effort import draws

lark = pytest.importorskip("lark", reason="lark is not installed")

from lark.indenter import PythonIndenter  # noqa: E402 - needs lark

from tests.lark_judge import load, parses  # noqa: E402

FOLDER = Path(__file__).parent.parent / "grammars"
NAMES = sorted(path.stem for path in FOLDER.glob("*.lark"))
SEED = os.environ.get("GUIDED_FUZZ_SEED", "0")
SEPARATOR = "\n=====\n"
LONGEST_FOR_EARLEY = {"play": -1, "shakespeare": 16}


def samples(name: str, kind: str) -> list[str]:
    text = (FOLDER / "samples" / f"{name}.{kind}.txt").read_bytes().decode()
    *found, rest = text.split(SEPARATOR)
    assert found and not rest
    return found


@pytest.fixture(scope="module")
def compiler() -> guided.GrammarCompiler:
    """A token for each byte, and for some pieces of the samples."""
    data = [text.encode() for name in NAMES for text in samples(name, "accept")]
    pieces = {text[i : i + n] for text in data for n in (2, 3, 4) for i in range(len(text) - n + 1)}
    tokens = [bytes([byte]) for byte in range(256)] + sorted(pieces)
    return guided.GrammarCompiler(guided.Vocabulary([*tokens, None], eos_token_ids=[len(tokens)]))


@pytest.mark.parametrize("name", NAMES)
def test_stored_forms_match_the_texts(name):
    """If this fails, run `python scripts/store_grammars.py`."""
    found = guided.library()[name]
    stored = library_module._read_stored(FOLDER / f"{name}.lark", found.text, guided.Limits())
    if stored is None:
        _, unicode_version = read_container((FOLDER / f"{name}.stored").read_bytes(), guided.Limits()).metadata[
            "made_from"
        ]
        assert unicode_version != unicodedata.unidata_version
        pytest.skip(f"the stored form was made with Unicode {unicode_version}")
    assert stored.grammar() == read_lark(found.text, LarkOptions(**found.options))


def test_only_python_depends_on_the_version_of_unicode(monkeypatch):
    class_ranges = python_escapes.class_ranges

    def ascii_and_spaces(letter, ascii_only):
        assert letter in "sS" or ascii_only, "this class depends on the version of Unicode"
        return class_ranges(letter, ascii_only)

    for module in python_syntax, python_escapes, alphabet:
        monkeypatch.setattr(module, "class_ranges", ascii_and_spaces)
    alphabet.get_alphabet.cache_clear()
    found = []
    for name, each in guided.library().items():
        try:
            read_lark(each.text, LarkOptions(**each.options))
        except AssertionError:
            found.append(name)
    assert found == [name for name, each in guided.library().items() if len(library_module._fingerprint(each.text)) > 1]
    assert found == ["python"]
    alphabet.get_alphabet.cache_clear()


def test_stored_forms_of_other_texts_are_not_used(tmp_path, monkeypatch):
    path = tmp_path / "json.lark"
    path.write_bytes((FOLDER / "json.lark").read_bytes().replace(b"true", b"yes"))
    path.with_suffix(".stored").write_bytes((FOLDER / "json.stored").read_bytes())
    assert library_module._read_stored(path, path.read_text(), guided.Limits()) is None
    assert library_module._read_stored(path, (FOLDER / "json.lark").read_text(), guided.Limits()) is not None
    library_module._load_part.cache_clear()
    monkeypatch.setattr(library_module, "_files", lambda: {"json": path})
    compiler = guided.GrammarCompiler(guided.Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[256]))
    compiled = compiler.compile(guided.grammar("json"))
    assert accepts(compiled, "[yes]") and not accepts(compiled, "[true]")
    library_module._load_part.cache_clear()


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


def written(
    grammar: guided.CompiledGrammar,
    rng: random.Random,
    budget: int,
    liked: np.ndarray | None = None,
    *,
    ascii_only: bool = True,
) -> str:
    """A random walk through the masks, complete within the budget, which prefers certain tokens."""
    matcher, out, vocabulary = guided.GrammarMatcher(grammar), b"", grammar.vocabulary
    row = guided.allocate_token_bitmask(1, vocabulary.size)
    drawn = ascii_tokens(vocabulary) if ascii_only else np.ones(vocabulary.size, dtype=bool)
    while not matcher.is_terminated():
        matcher.fill_next_token_bitmask(row, 0, max_tokens=budget)
        allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocabulary.size] & drawn
        some = allowed if liked is None or rng.random() < 0.1 else allowed & liked
        token = int(rng.choice(np.flatnonzero(some if some.any() else allowed)))
        assert matcher.accept_token(token)
        out += vocabulary.tokens[token] or b""
        budget -= 1
    assert budget >= 0
    return out.decode()


@lru_cache(maxsize=4)
def ascii_tokens(vocabulary: guided.Vocabulary) -> np.ndarray:
    return np.array([(token or b"").isascii() for token in vocabulary.tokens])


def is_soon_parsed(name: str, text: str) -> bool:
    """Lark's Earley parser takes seconds for a line, and its time is cubic in the length.

    For plays, creating it takes minutes, so a regular expression is the judge. An LALR parser cannot decide in time
    whether `match (x)` is a call.
    """
    if name == "python" and "match" in text:
        return False
    return guided.library()[name].semantics == "lexer" or len(text) <= LONGEST_FOR_EARLEY.get(name, 30)


@cache
def by_lark(name: str) -> object:
    """Lark's parser for a built-in grammar. Loading a large grammar takes longer than parsing its samples."""
    found = guided.library()[name]
    if found.semantics == "lexer":
        postlex = PythonIndenter() if found.options.get("postlex") == "python" else None
        return load(found.text, parser="lalr", lexer=found.options.get("lexer", "contextual"), postlex=postlex)
    return load(found.text, parser="earley", lexer="dynamic_complete")


def test_every_grammar_has_a_head_and_samples() -> None:
    assert set(guided.library()) == set(NAMES)
    assert {path.name.split(".")[0] for path in (FOLDER / "samples").iterdir()} == set(NAMES)
    with pytest.raises(SpecError) as caught:
        guided.grammar("jason")
    assert "did you mean 'json'?" in caught.value.hint


def test_a_head_determines_the_kind_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grammars").mkdir()
    monkeypatch.setattr(library_module, "_PACKAGE", tmp_path)
    path = tmp_path / "grammars" / "a.lark"
    for head, options in {
        "// semantics: basic lexer\n": {"semantics": "lexer", "lexer": "basic"},
        "// semantics: basic lexer\n// indentation: python\n":
            {"semantics": "lexer", "lexer": "basic", "postlex": "python"},
    }.items():  # fmt: skip
        path.write_text(f"// a: the letter a\n{head}\nstart: " + '"a"\n')
        assert guided.library()["a"].options == options
    path.write_text("// b: another name\n// semantics: scannerless\n")
    with pytest.raises(SpecError, match=r"a\.lark does not begin with the header"):
        guided.library()


@pytest.mark.parametrize("name", NAMES)
def test_samples(compiler: guided.GrammarCompiler, name: str) -> None:
    """guided and Lark agree on each sample."""
    grammar, parser = compiler.compile(guided.grammar(name)), None if name == "play" else by_lark(name)
    good, bad = samples(name, "accept"), samples(name, "reject")
    assert len(good) >= 2 and len(bad) >= 5
    for text in (*good, *bad):
        assert accepts(grammar, text) == (text in good), text
        if is_soon_parsed(name, text):
            assert parses(parser, text) == (text in good), text


WORD = "(?:[A-Z]?[a-z]{1,13}|[IOA])(?:['-][a-z]+){0,2}"
LINE = re.compile(rf"(?:[A-Z]+(?: [A-Z]+)?: [A-Z]\S*(?:(?:[,;:]|--)? {WORD}){{0,5}}[.!?]\n)+")
JUDGES = {
    "json": json.loads,
    "arithmetic": lambda text: compile(text.replace("^", "**").replace("\t", " ").strip(), "", "eval"),
    "calculator": calculate,
    "csv": lambda text: list(csv.reader(io.StringIO(text, newline=""), strict=True)),
    "regex": re.compile,
    "shakespeare": lambda text: LINE.fullmatch(text)[0],
    "play": lambda text: re.fullmatch(PLAY_SCRIPT, text)[0],
    "url": lambda text: (urlsplit(text).hostname, urlsplit(text).port),
}


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", JUDGES)
def test_generated_texts_are_read_by_other_libraries(compiler: guided.GrammarCompiler, name: str, count: int) -> None:
    """A number of different texts."""
    grammar, rng, texts = compiler.compile(guided.grammar(name)), random.Random(f"{SEED} {name}"), set[str]()
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    for _ in range(5 * count):
        texts.add(written(grammar, rng, least + rng.randrange(30)))
        if len(texts) == count:
            break
    assert len(texts) == count
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # warnings about regular expressions that may change their meaning, and about numbers before words
        for text in texts:
            JUDGES[name](text)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"play"}))
def test_generated_texts_parse_with_lark(compiler: guided.GrammarCompiler, name: str) -> None:
    grammar, parser, rng = compiler.compile(guided.grammar(name)), by_lark(name), random.Random(f"{SEED} {name}")
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    judged = 0
    while judged < draws(20):
        text = written(grammar, rng, least + rng.randrange(12))
        if is_soon_parsed(name, text):
            assert parses(parser, text), text
            judged += 1
