"""Checks for generated texts of every notation: errors have a location, trees have their meaning, and walks end."""

from __future__ import annotations

import ast
import json
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st

from guided.errors import GuidedError, GuidedWarning, LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.limits import Limits
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary
from tests.tree_grammars import CONTROL, Rules, accepts, generates_something, id_of, is_control

END = 256
NAMES = {257: "<think>", 258: "</think>"}
LIMITS = Limits(work=5_000_000, seconds=5)
COMPILER = GrammarCompiler(
    Vocabulary([bytes([code]) for code in range(256)] + [None, None, None], eos_token_ids=[END], special_tokens=NAMES),
    limits=LIMITS,
)
RANDOMS = st.randoms(use_true_random=False)


def tell(text: str) -> None:
    """Show details of a failure: as hypothesis notes, or in pytest's output."""
    (note if currently_in_test_context() else print)(text)


def answered(text: str, compile: Callable[[str], CompiledGrammar]) -> CompiledGrammar | GuidedError:
    """The grammar, or the error of a refused text, which must have a location in the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuidedWarning)
            return compile(text)
    except LimitExceeded as error:
        assert error.given > error.allowed
        return error
    except VocabularyError as error:
        named = re.search(r"'(?:[^'\\]|\\.)*'|\d+", str(error))
        assert named is not None and str(ast.literal_eval(named[0])) in text, str(error)
        return error
    except (SpecError, UnsupportedError) as error:
        start, end = error.span
        if error.pointer.startswith("/") and text.startswith("{"):  # an error in the text has a location in it
            value = at_pointer(json.loads(text), error.pointer)
            assert error.text in (text, value), (error.pointer, str(error))
        if line := re.search(r"\(line (\d+)\)$", error.pointer):  # or in the rule that the core refuses
            assert 1 <= int(line[1]) <= text.count("\n") + 1 and isinstance(error, UnsupportedError)
        else:
            assert error.text and 0 <= start <= end <= len(error.text), (error.span, str(error))
            assert error.text == text or error.pointer, str(error)
        return error


def at_pointer(value: Any, pointer: str) -> Any:
    """The value at a JSON Pointer; None for a member that an object does not have."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    for number, key in enumerate(keys):
        if isinstance(value, dict) and key not in value:
            assert number == len(keys) - 1, pointer
            return None
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def takes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether the grammar accepts the text. Tokens without text are characters of their own in it."""
    matcher = GrammarMatcher(grammar)
    ids = [id for char in text for id in ([id_of(char)] if is_control(char) else char.encode())]
    return all(map(matcher.accept_token, ids)) and matcher.is_accepting()


def walked(grammar: CompiledGrammar, rng: random.Random, more: int) -> str:
    """The text of a walk through the masks within a budget of `more` tokens beyond the minimum.

    It prefers ASCII tokens, because rules about tokens may allow bytes that do not form complete characters.
    """
    matcher, bitmask, out = GrammarMatcher(grammar), allocate_token_bitmask(1, COMPILER.vocabulary.size), b""
    for left in range(matcher.min_tokens_to_finish() + more, 0, -1):
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
        allowed = list(allowed_tokens(bitmask))
        token = rng.choice([id for id in allowed if not 128 <= id < END] or allowed)
        assert matcher.accept_token(token)
        if token == END:
            return out.decode("utf-8", "surrogatepass")
        out += bytes([token]) if token < END else chr(CONTROL + token).encode("utf-8", "surrogatepass")
    raise AssertionError("the budget is used up, and the output is not complete")


def agree(
    grammar: CompiledGrammar | GuidedError, rules: Rules, letters: str, rng: random.Random, root: str = "root"
) -> None:
    """Check that the grammar agrees with the tree on random texts, and on texts that it generates itself."""
    if not isinstance(grammar, CompiledGrammar):
        own = isinstance(grammar, LimitExceeded | UnsupportedError) or "are the same" in str(grammar)  # a rule of Lark
        assert own or not generates_something(rules, root), str(grammar)
        return
    assert generates_something(rules, root)
    for _ in range(30):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(0, 5)))
        assert takes(grammar, text) == accepts(rules, text, root), text
    for more in (0, rng.randint(1, 6)):
        text = walked(grammar, rng, more)
        assert accepts(rules, text, root), text
        near = "".join(rng.choice([char, char, char, rng.choice(letters), ""]) for char in text[:12])
        assert takes(grammar, near) == accepts(rules, near, root), near


def broken(text: str, pieces: re.Pattern[str], others: list[str], rng: random.Random) -> str:
    """The text with a few pieces removed, doubled, moved, or replaced by `others`."""
    found = [each[0] for each in pieces.finditer(text)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found) + 1)
        put = rng.choice([[], [rng.choice(others)], [rng.choice(found)] if found else []])
        found[at : at + rng.randrange(2)] = put
    return "".join(found)


def walked_if_short(grammar: CompiledGrammar | GuidedError, rng: random.Random) -> None:
    """A walk to the end, unless it needs thousands of tokens."""
    if isinstance(grammar, CompiledGrammar) and GrammarMatcher(grammar).min_tokens_to_finish() < 100:
        walked(grammar, rng, 3)
