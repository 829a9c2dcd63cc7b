"""Shakespeare's formats on the character-level model: every possible output is a text of the format."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.levels import NAME_LINE, PLAY_SCRIPT
from tests.level_support import CHARACTERS, is_play
from tests.walks import RULES, Plan, Walker

pytest.importorskip("safetensors")
torch.set_num_threads(1)
TEMPERATURES = (0.3, 0.8, 1.0, 1.5)
PLAY = """KING HENRY:
What says my lord, to-day?
'Tis late; I'll stay--
Nay, stay! O, Anne.

ANNE:
Ay.
"""


@pytest.fixture(scope="module")
def engine():
    return Engine.from_pretrained("shakespeare", dtype="float32")


def samples(engine, grammar, count, max_tokens):
    """Results at several temperatures."""
    for temperature in TEMPERATURES:
        n = count // len(TEMPERATURES)
        yield from engine.generate("\n", grammar, n=n, temperature=temperature, seed=7, max_tokens=max_tokens)


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_name_lines(engine, count):
    grammar = engine.compiler.compile_pattern(NAME_LINE)
    assert grammar.native.positions == 6
    texts = [result.text for result in samples(engine, grammar, count, 30)]
    warm = texts[count // 4 :]  # at the lowest temperature the model repeats itself
    assert len(texts) == count and len(set(warm)) > 0.7 * count
    for text in texts:
        name, colon, rest = text.partition(": ")
        assert colon and name.isupper() and name.isalpha() and rest[-1:] == "\n"
        assert rest[:-1].islower() and rest[:-1].isalpha() and len(text) <= 30


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_plays(engine, count):
    grammar = engine.compiler.compile_regex(PLAY_SCRIPT)
    results = list(samples(engine, grammar, count, 150))
    assert len(results) == count
    for result in results:
        assert result.finish_reason == "stop"
        assert len(result.text) <= 150
        assert is_play(result.text), result.text
        assert re.fullmatch(PLAY_SCRIPT, result.text)


@pytest.mark.parametrize("constraint", ["name line", "play"])
def test_random_walks(engine, constraint):
    """Regardless of the model: any allowed token, the longest walks, and the smallest budget."""
    compiler = engine.compiler
    play = constraint == "play"
    grammar = compiler.compile_regex(PLAY_SCRIPT) if play else compiler.compile_pattern(NAME_LINE)
    pattern = re.compile(PLAY_SCRIPT if play else "[A-Z]+: [a-z]+\n")
    walker, rng = Walker(engine.vocabulary), random.Random(5)
    for _ in range(150 if play else 300):
        plan = Plan(rng.choice(RULES), rng.choice([0, 0, 5, 60]), rng.choice([0, 1, 7, 80]))
        text = walker.walk(grammar, plan, rng)
        assert text is not None
        assert pattern.fullmatch(text.decode())
        assert not play or is_play(text.decode())


def test_the_play_format_by_example():
    assert is_play(PLAY) and re.fullmatch(PLAY_SCRIPT, PLAY)
    for wrong in (
        *("King HENRY:\nAy.\n", "A B C:\nAy.\n", "ANNE:\nay.\n", "ANNE:\nAy\n", "ANNE:\nAy.", "ANNE:\nAy. no.\n"),
        *("ANNE:\nAy ,no.\n", "ANNE:\n\nAy.\n", "ANNE:\nAy.\n\n", "ANNE:\nAy.\n\n\nANNE:\nAy.\n"),
    ):
        assert not is_play(wrong) and not re.fullmatch(PLAY_SCRIPT, wrong)


@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_the_expression_agrees_with_its_reader(rng: random.Random, changes):
    """The play with some characters changed, removed or doubled."""
    text = PLAY
    for _ in range(changes):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", text[at] * 2, rng.choice(CHARACTERS), "\n", " "]) + text[at + 1 :]
    assert is_play(text) == bool(re.fullmatch(PLAY_SCRIPT, text))


NESTED = (r"[\s\S]{40}", r"[A-Za-z ,.'\n]{40}", "[a-z ]{40}", "[a-z]{40}", "[aeiou]{40}")


def test_tighter_constraints_cost_more_and_read_worse(engine):
    """Each constraint allows less than the one before, so more probability is removed. The first three hardly restrict
    the model, and the texts read like free ones. The model likes the others less and less.
    """
    removed, surprise = [], []
    for constraint in NESTED:
        results = engine.generate("\n", constraint, n=40, temperature=1.0, seed=3, max_tokens=41, logprobs=0)
        assert all(len(result.tokens) == 40 for result in results)
        removed.append(sum(sum(result.removed_log_masses[:40]) for result in results) / 1600)
        surprise.append(-sum(scored.logprob for result in results for scored in result.logprobs) / 1600)
    assert removed[0] < 1e-3  # only the end token was masked
    assert all(a < b for a, b in pairwise(removed)), removed
    free, *loose = surprise[:3]
    assert all(abs(other - free) < 0.1 for other in loose), surprise
    assert free + 0.5 < surprise[3] < surprise[4] - 1, surprise
    assert removed[2] < 0.3 < 1 < removed[3] and removed[4] > 4


def test_a_single_allowed_token_needs_no_choice(engine):
    results = engine.generate("\n", "a{20}", n=5, temperature=1.5, seed=1, max_tokens=21, score_forced=True)
    assert {result.text for result in results} == {"a" * 20}
    assert len({result.removed_log_mass for result in results}) == 1
    assert results[0].removed_log_mass > 60  # one of e ** 60 texts


def test_the_model_does_not_know_of_the_constraint(engine):
    """The model's scores after a forced text equal those after the same text without forcing."""
    result = engine.generate("\n", "ROMEO: [a-z]{5}\n", max_tokens=20, logprobs=3)
    prompt = engine.encode_prompt("\n")
    for at, scored in enumerate(result.logprobs):
        if scored is not None:
            raw = engine.logits([*prompt, *result.tokens[:at]])[0].log_softmax(0)
            assert [token for token, _ in scored.top] == raw.topk(3).indices.tolist()
            assert scored.logprob == pytest.approx(float(raw[result.tokens[at]]), abs=1e-4)
