"""Errors survive pickling and copying, as process pools need."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import guided
from guided import errors
from guided.chat.conversation import MessageError
from guided.errors import GuidedError

ERRORS = [
    GuidedError("wrong").with_location("a(b", (1, 2), "file", hint="write a"),
    errors.SpecError("unclosed", text="a(b", span=(1, 2), hint="close it", pointer="/a"),
    errors.UnsupportedError("not regular", pointer="offset 3", hint="write b"),
    errors.LimitExceeded("seconds", 2.5, 1.0, place="rule a"),
    errors.LimitExceeded("depth", 20, 10, fixed=True),
    errors.ModelFileError("no such file"),
    errors.VocabularyError("no such token", token="<x>", hint="add it"),
    errors.BudgetError(9, 2, 5, is_exact=True),
    errors.ContextError(100, 64),
    errors.OptionError("must be positive", option="n"),
    errors.ToolError("no such city"),
    MessageError(3, "role", "has no role"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
def test_copies_have_the_same_message_and_attributes(error, copied):
    error.add_note("while reading")
    other = copied(error)
    assert other is not error and type(other) is type(error)
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))


def test_every_error_is_tried():
    public = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, GuidedError)}
    assert public <= {type(error) for error in ERRORS}


def _write_too_much() -> None:
    vocabulary = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile_regex("a{9}"))
    matcher.fill_next_token_bitmask(guided.allocate_token_bitmask(1, vocabulary.size), max_tokens=2)


def test_a_process_pool_delivers_errors():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(errors.BudgetError) as caught:
        pool.submit(_write_too_much).result(timeout=60)
    assert (caught.value.needed, caught.value.given) == (10, 2)
