"""A constraint does not depend on the source of the logits: one test for each way to compute them.

The judge is `expected`: for each token, it reads everything again, and a few lines of Python (`missing`) determine
which texts can become a text of the format within the remaining budget. It chooses the most likely character among
these. It uses neither a cache nor the core.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.engine.runner import cache_shape
from guided.kv.dense import DenseCache
from guided.kv.paged import PagedCache
from guided.kv.radix import RadixCache
from guided.levels import CompiledFSM, Reader, generate_guided, greedy
from guided.logits import apply_token_bitmask_inplace
from guided.matching import GrammarMatcher, allocate_token_bitmask
from guided.models.architectures.gpt import GPT
from guided.models.block_matrix import BlockMatrix
from tests.block_support import quantise_q4_1
from tests.effort import examples
from tests.engine_support import Reader as Rows
from tests.level_support import CHARACTERS, ids, text

pytest.importorskip("safetensors")
torch.set_num_threads(1)

FORMAT = "[A-Z]{2,8}: ([a-z]{2,9} ){3}[a-z]+[.!?]\n"
BUDGET = 48
UPPER, LOWER = set(CHARACTERS[13:39]), set(CHARACTERS[39:])
PROMPT = "the king.\n\n"


@pytest.fixture(scope="module")
def engine():
    return Engine.from_pretrained("shakespeare", dtype="float32")


@pytest.fixture(scope="module")
def grammar(engine):
    return engine.compiler.compile_regex(FORMAT)


@pytest.fixture(scope="module")
def wanted(engine):
    return expected(lambda text: Rows(engine.model).forward(ids(text)[0].tolist())[0])


def expected(logits: Callable[[str], torch.Tensor]) -> str:
    written = ""
    while not re.fullmatch(FORMAT, written):
        scores = logits(PROMPT + written)
        left = BUDGET - len(written) - 1
        allowed = [t for t, char in enumerate(CHARACTERS) if can_end(written + char, left)]
        written += CHARACTERS[max(allowed, key=lambda token: float(scores[token]))]
    return written


def can_end(begun: str, left: int) -> bool:
    """Whether a number of further characters can complete a text of the format, checked by hand from left to right."""
    least = missing(begun)
    return least is not None and least <= left


def missing(begun: str) -> int | None:
    """The smallest number of missing characters. None: no text of the format begins with this text."""
    name, colon, said = begun.partition(":")
    if len(name) > 8 or not set(name) <= UPPER or (colon and len(name) < 2):
        return None
    if not colon:
        return max(0, 2 - len(name)) + len(": ab ab ab a.\n")
    if said[:1] not in ("", " "):
        return None
    *words, last = said.split(" ")[1:] or [""]
    if len(words) > 3 or not all(2 <= len(word) <= 9 and set(word) <= LOWER for word in words):
        return None
    if len(words) < 3:
        lacks = (said == "") + len("ab " * (3 - len(words)) + "a.\n") - min(2, len(last))
        return None if len(last) > 9 or not set(last) <= LOWER else lacks
    body = last.rstrip("\n").rstrip(".!?")
    end = last[len(body) :]
    if not set(body) <= LOWER or len(end) > 2 or (end and not (body and re.fullmatch("[.!?]\n?", end))):
        return None
    return (not body) + 2 - len(end)


def guided_by(reader, grammar) -> str:
    out = generate_guided(reader, ids(PROMPT), CompiledFSM(grammar), BUDGET, choose=greedy)
    assert out.complete
    return text(out.idx).removeprefix(PROMPT)


def test_the_judge_knows_the_format(grammar, wanted):
    """On walks through the format, and one character away from them. The number for the budget is the smallest."""
    assert re.fullmatch(FORMAT, wanted) and len(wanted) <= BUDGET
    rng = random.Random(2)
    for _ in range(200):
        matcher, written = GrammarMatcher(grammar), ""
        for _ in range(rng.randrange(50)):
            allowed = [char for char in CHARACTERS if can_end(written + char, 1000)]
            if not allowed:
                break
            written += rng.choice(allowed)
            assert matcher.accept_string(written[-1])
        needed = matcher.min_tokens_to_finish() - 1  # the end token
        assert can_end(written, needed) and not can_end(written, needed - 1)
        for char in CHARACTERS:
            assert can_end(written + char, 1000) == matcher.fork().accept_string(char)


def test_full_recompute(engine, grammar, wanted):
    reader = Reader(engine.model, remember=False)
    assert guided_by(reader, grammar) == wanted
    length = len(PROMPT) + len(wanted)
    assert reader.read == sum(range(len(PROMPT), length))  # each time all of it


def test_cached_decoding(engine, grammar, wanted):
    reader = Reader(engine.model)
    assert guided_by(reader, grammar) == wanted
    assert reader.read == len(PROMPT) + len(wanted) - 1  # each token once
    assert engine.generate(PROMPT, grammar, max_tokens=BUDGET + 1).text == wanted


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_chunked_prefill(engine, grammar, wanted, size):
    assert guided_by(Reader(engine.model, chunk=size), grammar) == wanted
    narrow = Engine(engine.model, engine.vocabulary, token_budget=size)  # of one forward pass
    assert narrow.generate(PROMPT, grammar, max_tokens=BUDGET + 1).text == wanted


@pytest.mark.parametrize(
    "make",
    [
        lambda shape: PagedCache(shape, blocks=64, block_size=4),
        lambda shape: PagedCache(shape, blocks=8, block_size=16),
        lambda shape: RadixCache(shape, slots=256),
        lambda shape: DenseCache(shape, 256),
    ],
    ids=["pages of 4", "pages of 16", "radix tree", "contiguous"],
)
def test_paged_cache(engine, grammar, wanted, make):
    shape = cache_shape(engine.model)
    assert guided_by(Reader(engine.model, cache=make(shape)), grammar) == wanted
    paged = Engine(engine.model, engine.vocabulary, cache=make(shape))
    for _ in range(2):  # the second time, the prompt is cached
        assert paged.generate(PROMPT, grammar, max_tokens=BUDGET + 1).text == wanted


def verify(rows: Rows, matcher: GrammarMatcher, written: list[int], draft: list[int], left: int) -> list[int]:
    """One step of speculation: K drafted tokens are read in one pass, which returns K + 1 rows of logits.

    The masks of all rows are filled first, as for an accelerator that masks them together. Then the matcher is
    rolled back to where the choices diverge from the draft.
    """
    draft = draft[: min(matcher.validate_tokens(draft), left - 1)]
    masks = allocate_token_bitmask(len(draft) + 1, matcher.grammar.vocabulary.size)
    steps = 0
    for row, token in enumerate([*draft, None]):
        if matcher.min_tokens_to_finish() > left - row + 1:
            break  # the budget is too small for this draft
        matcher.fill_next_token_bitmask(masks, row, max_tokens=left - row + 1)
        if token is not None:
            assert matcher.accept_token(token)
            steps += 1
    matcher.rollback(steps)
    logits = rows.forward([*written[rows.length :], *draft], len(draft) + 1)
    apply_token_bitmask_inplace(logits, masks)
    chosen: list[int] = []
    for row in range(len(draft) + 1):
        token = int(logits[row].argmax())
        assert matcher.accept_token(token)
        chosen.append(token)
        if matcher.is_accepting() or row == len(draft) or token != draft[row]:
            break
    rows.truncate(len(written) + len(chosen) - 1)  # drafted and read, but not chosen
    return chosen


@examples(25)
@given(st.integers(0, 6), st.floats(0, 1), st.randoms(use_true_random=False))
def test_speculative_verification(engine, grammar, wanted, k, luck, rng):
    """Drafts that are right, wrong, outside the format or beyond its end: the output is the same."""
    rows, matcher = Rows(engine.model), GrammarMatcher(grammar)
    prompt = ids(PROMPT)[0].tolist()
    written, passes = list(prompt), 0
    while not matcher.is_accepting():
        done = len(written) - len(prompt)
        draft = [CHARACTERS.index(char) for char in wanted[done : done + k]]
        draft = [token if rng.random() < luck else rng.randrange(65) for token in draft]
        written += verify(rows, matcher, written, draft, BUDGET - done)
        passes += 1
    assert text(torch.tensor(written)) == PROMPT + wanted
    if luck == 1:
        assert passes == -(-len(wanted) // (k + 1))


def quantised(model: GPT, dtype: torch.dtype) -> GPT:
    """The matrices of the layers in 4 bits: groups of 32, each with a scale and an offset."""

    def matrix(weight: torch.Tensor) -> BlockMatrix:
        return BlockMatrix([quantise_q4_1(weight.float().numpy())], dtype)

    def rounded(affine):
        return tuple(part.to(dtype) for part in affine)

    layers = [
        replace(
            layer,
            **{name: rounded(getattr(layer, name)) for name in ("attention_norm", "ffn_norm")},
            **{
                n: (matrix(getattr(layer, n)[0]), getattr(layer, n)[1].to(dtype))
                for n in ("qkv", "output", "up", "down")
            },
        )
        for layer in model.layers
    ]
    embedding = model.embedding.to(dtype)
    return GPT(model.config, embedding, model.position_embedding.to(dtype), layers, rounded(model.norm), embedding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_quantised_weights(engine, grammar, dtype):
    """Other logits, the same rule: the most likely allowed token, by the quantised model's own scores."""
    model = quantised(engine.model, dtype)
    judge = Reader(model)
    wanted = expected(lambda text: judge(ids(text))[0])
    assert re.fullmatch(FORMAT, wanted)
    assert guided_by(Reader(model), grammar) == wanted
    assert Engine(model, engine.vocabulary).generate(PROMPT, grammar, max_tokens=BUDGET + 1).text == wanted
    # It is the same model, rounded, so it assigns the text a similar probability.
    target = torch.tensor(ids(PROMPT + wanted)[0].tolist()[1:])
    losses = [
        float(
            torch.nn.functional.cross_entropy(
                Rows(m).forward(ids(PROMPT + wanted)[0].tolist()[:-1], len(target)), target
            )
        )
        for m in (engine.model, model)
    ]
    assert abs(losses[0] - losses[1]) < 0.2, losses
