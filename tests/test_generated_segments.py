"""Calculator segments and Shakespeare's lines, generated through masks with budgets, and by the engine.

Judges that do not know the grammar check each text: Python's own evaluation checks a segment, a regular expression
checks a line. The vocabularies are the 65 characters of Tiny Shakespeare, and that of SmolLM2, with four control tokens
for the segment.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.engine.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.tools import CALCULATOR, ToolTokens
from tests.core_support import mask_of
from tests.document_support import missing
from tests.effort import draws, examples
from tests.level_support import CHARACTERS
from tests.test_tools_calculator import answers
from tests.tool_support import segments
from tests.walks import RULES, Plan, Walker

pytest.importorskip("lark", reason="lark is not installed")

DIGITS = '0123456789+*/()"'
SMOLLM2 = ToolTokens("<jupyter_code>", "<jupyter_text>", "<jupyter_output>", "<jupyter_script>")
UNSPELLED = "error: the vocabulary cannot spell the result"
WORD = "(?:[A-Z]?[a-z]{1,13}|[IOA])(?:['-][a-z]{1,12}){0,2}"
LINE = re.compile(rf"[A-Z]{{2,12}}(?: [A-Z]{{2,12}})?: (?![a-z]){WORD}(?:(?:[,;:]|--)? {WORD}){{0,5}}[.!?]\n")


def vocabulary_of(characters: str) -> guided.Vocabulary:
    names = dict(enumerate(CALCULATOR.tokens, len(characters) + 1))
    tokens = [*(character.encode() for character in characters), None, *[None] * len(names)]
    return guided.Vocabulary(tokens, eos_token_ids=[len(characters)], special_tokens=names)


def random_engine(vocabulary: guided.Vocabulary) -> Engine:
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    return Engine(Llama.random(LlamaConfig(**sizes, vocab_size=vocabulary.size, context=400), seed=5), vocabulary)


ENGINES = {"the 65 characters": random_engine(vocabulary_of(CHARACTERS))}
ENGINES["with digits"] = random_engine(vocabulary_of(CHARACTERS + DIGITS))
"""The 65 characters have one digit, the 3, and no bracket."""


@pytest.fixture(scope="module")
def smollm2() -> Engine:
    if why := missing("model"):
        pytest.skip(why)
    return Engine.from_pretrained("smollm2-135m-instruct")


def is_line(text: str) -> bool:
    return LINE.fullmatch(text) is not None


def are_lines(text: str) -> bool:
    return bool(text) and all(map(is_line, text.splitlines(keepends=True)))


def walk(engine: Engine, name: str, seed: int) -> str:
    """A random walk through the masks, with the smallest budget or a larger one."""
    rng = random.Random(f"{name} {seed}")
    plan = Plan(rng.choice(RULES), rng.choice([0, 0, 5, 40]), rng.choice([0, 1, 7, 60]))
    text = Walker(engine.vocabulary).walk(engine.compiler.compile(guided.grammar(name)), plan, rng)
    assert text is not None
    return text.decode()


def called(engine: Engine, seed: int, max_tokens: int) -> None:
    """Generated text with the calculator: each call has a value, which follows it in the text."""
    begin, end, *_ = sorted(engine.vocabulary.special_tokens)
    options = {"temperature": 1.5, "logit_bias": {begin: 9.0, end: 3.0}}
    result = engine.generate("x", tools=[CALCULATOR], seed=seed, max_tokens=max_tokens, **options)
    assert result.tool_calls and len(result.tokens) <= max_tokens
    for call in result.tool_calls:
        answers(call.text)
        value = CALCULATOR.answer(call.text)
        shown = value if {character.encode() for character in value} <= {*engine.vocabulary.tokens} else UNSPELLED
        assert call.result in (shown, "")  # empty if the budget is too small for it


@pytest.mark.parametrize("name", ENGINES)
@given(st.integers(0, 10**9))
def test_walks_of_characters(name: str, seed: int) -> None:
    answers(walk(ENGINES[name], "calculator", seed))
    assert are_lines(walk(ENGINES[name], "shakespeare", seed))


@pytest.mark.parametrize("name", ENGINES)
@examples(25)
@given(st.integers(0, 10**9), st.integers(20, 90))
def test_the_engine_calls_by_characters(name: str, seed: int, max_tokens: int) -> None:
    called(ENGINES[name], seed, max_tokens)


@examples(10)
@given(st.integers(0, 10**9), st.integers(12, 120))
def test_lines_by_the_character_model(seed: int, max_tokens: int) -> None:
    engine = Engine.from_pretrained("shakespeare", dtype="float32")
    result = engine.generate("\n", guided.grammar("shakespeare"), seed=seed, temperature=1.0, max_tokens=max_tokens)
    assert are_lines(result.text) and len(result.tokens) <= max_tokens


def test_a_sentence_with_a_call_of_each_kind() -> None:
    """The segment as a part of a sentence. Counted text is in quotation marks."""
    engine = ENGINES["with digits"]
    constraint = "It is " + CALCULATOR.segment + ".\n"
    kinds = set()
    for seed in range(30):
        result = engine.generate("x", constraint, tools=[CALCULATOR], seed=seed, temperature=2.0, max_tokens=80)
        ids = sorted(engine.vocabulary.special_tokens)
        (text, said, masks), *others = segments(result, engine.vocabulary, ids)
        answers(text)
        assert not others and said == CALCULATOR.answer(text) and set(masks) == {0}
        kinds.add("count" if ".count(" in text else "sum")
    assert kinds == {"count", "sum"}


def test_wrong_values_are_detected() -> None:
    for text in ("1/0", "9" * 200 + ".0*" + "9" * 200, "(" * 51 + "1" + ")" * 51, "", "1+"):
        with pytest.raises(AssertionError):
            answers(text)
    assert is_line("KING HENRY: O, my lord-- I'll stay!\n")
    for text in (
        "King: No.\n",
        "ANNE: no.\n",
        "ANNE: No\n",
        "ANNE: No.",
        "ANNE: No,no.\n",
        "ANNE: " + "A " * 6 + "b.\n",
    ):
        assert not is_line(text)


@pytest.mark.model
def test_walks_over_a_real_vocabulary(smollm2: Engine) -> None:
    for seed in range(draws(60)):
        answers(walk(smollm2, "calculator", seed))
        assert are_lines(walk(smollm2, "shakespeare", seed))


@pytest.mark.model
def test_a_real_model_calls_and_writes_lines(smollm2: Engine) -> None:
    tool = replace(CALCULATOR, tokens=SMOLLM2)
    for seed in range(4):
        result = smollm2.generate("7 times 8?", "It is " + tool.segment + ".", tools=[tool], seed=seed, max_tokens=60)
        (call,) = result.tool_calls
        answers(call.text)
        assert call.result in (tool.answer(call.text), "")
        line = smollm2.generate("A line of a play:", guided.grammar("shakespeare"), seed=seed, max_tokens=40)
        assert are_lines(line.text)


def test_a_line_that_is_forced_to_end() -> None:
    """With the smallest budget there is a line. With one token less, there is an error before the first token."""
    engine = ENGINES["the 65 characters"]
    grammar = engine.compiler.compile(guided.grammar("shakespeare"))
    least = len("AA: A.\n")
    assert guided.GrammarMatcher(grammar).min_tokens_to_finish() == least + 1  # with the end token
    assert are_lines(engine.generate("x", grammar, max_tokens=least).text)
    with pytest.raises(guided.BudgetError, match=f"{least}"):
        engine.generate("x", grammar, max_tokens=least - 1)
    matcher = guided.GrammarMatcher(grammar)
    assert {CHARACTERS[token] for token in mask_of(matcher, least + 1)} <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
