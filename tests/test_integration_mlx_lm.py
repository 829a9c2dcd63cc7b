"""The processor for mlx-lm: in mlx-lm itself if it is installed (also on a CPU), else with numpy instead of MLX."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
import warnings
from types import ModuleType, SimpleNamespace

import jsonschema
import numpy as np
import pytest

import guided
from guided.integrations.mlx_lm import GuidedLogitsProcessor, vocabulary_of

REAL = importlib.util.find_spec("mlx") is not None and importlib.util.find_spec("mlx_lm") is not None
needs_mlx = pytest.mark.skipif(not REAL, reason='mlx-lm is not installed: pip install "mlx[cpu]" mlx-lm')
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": [1, "x"]}}, "required": ["a"]}
END, WIDTH = 256, 264


@pytest.fixture
def mx(monkeypatch):
    """MLX, or numpy under the names that the processor uses."""
    if REAL:
        import mlx.core

        return mlx.core
    core = ModuleType("mlx.core")
    core.array, core.where, core.float32 = np.array, np.where, np.float32
    package = ModuleType("mlx")
    package.core = core
    monkeypatch.setitem(sys.modules, "mlx", package)
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    return core


def text(ids) -> str:
    return bytes(id for id in ids if id < END).decode()


def steps(mx, processor, prompt, most, rng, *, prefill=True):
    """As `generate_step` calls it: one call more than there are tokens, the first with the end of the prompt, or with
    the whole prompt.
    """
    ids = list(prompt[-2:] if prefill else prompt)
    written = list[int]()
    for _ in range(most + 1):
        logits = mx.array([[rng.gauss(0, 3) for _ in range(WIDTH)]], mx.float32)
        token = int(np.array(processor(mx.array(ids), logits)).argmax())
        if len(written) == most or (written and written[-1] == END):
            break
        ids.append(token)
        written.append(token)
    return text(written)


@pytest.mark.parametrize("most", [8, 20, 60])
def test_generations_are_complete_within_their_budget(mx, most):
    processor, rng = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=most), random.Random(most)
    for number in range(15):
        jsonschema.validate(json.loads(steps(mx, processor, b"prompt %d" % number, most, rng)), SCHEMA)


def test_only_logits_of_what_is_allowed_stay(mx):
    processor = GuidedLogitsProcessor("[ab]", VOCABULARY)
    logits = mx.array([[float(id) for id in range(WIDTH)]], mx.float32)
    out = np.array(processor(mx.array([1]), logits))
    assert out.shape == (1, WIDTH) and np.flatnonzero(np.isfinite(out)).tolist() == [ord("a"), ord("b")]
    assert out[0, ord("a")] == ord("a")


PROMPTS = [[b"one", b"three"], [b"one", b"one"], [b"a", b"b", b"ab"], [b"x"] * 5, [b"say", b"say1"]]


@pytest.mark.parametrize("prompts", PROMPTS)
def test_a_processor_that_several_rows_share_is_refused(mx, prompts):
    """As `batch_generate` calls it: for each row of a step in turn. No output is complete before the error."""
    processor, rng = GuidedLogitsProcessor("[0-9]{4}", VOCABULARY, max_tokens=9), random.Random(4)
    rows = [list(prompt) for prompt in prompts]
    with pytest.raises(guided.GuidedError, match="a processor for each sequence"):
        for _ in range(5):
            for row in rows:
                out = np.array(processor(mx.array(row), mx.array([[rng.random() for _ in range(WIDTH)]], mx.float32)))
                row.append(int(out.argmax()))
                assert re.fullmatch("[0-9]+", text(row[-1:]))


def test_prompts_may_begin_with_earlier_prompts_and_answers(mx):
    processor, rng, seen = GuidedLogitsProcessor("[0-9]{2}", VOCABULARY, max_tokens=3), random.Random(5), [b"a", b"b"]
    for _ in range(200):
        prompt = rng.choice(seen) + rng.choice([b"", b"x", b"yz"])
        answer = steps(mx, processor, prompt, 3, rng, prefill=False)
        assert re.fullmatch("[0-9]{2}", answer)
        seen = [*seen[-9:], prompt, prompt + answer.encode() + b"."]


def test_a_prompt_that_ends_within_the_previous_answer_needs_a_reset(mx):
    processor, rng = GuidedLogitsProcessor("[0-9]{3}", VOCABULARY, max_tokens=4), random.Random(7)
    answer = steps(mx, processor, b"a", 4, rng, prefill=False)
    processor.reset()
    assert re.fullmatch("[0-9]{3}", steps(mx, processor, b"a" + answer[:2].encode(), 4, rng, prefill=False))


def test_error_messages(mx):
    processor = GuidedLogitsProcessor("ab", VOCABULARY)
    with pytest.raises(guided.GuidedError, match="belongs to another model"):
        processor(mx.array([1]), mx.array([[0.0] * 9]))
    logits = mx.array([[0.0] * WIDTH])
    processor(mx.array([1]), logits)
    with pytest.raises(guided.GuidedError, match="another processor chose it"):
        processor(mx.array([1, ord("z")]), logits)
    with pytest.raises(guided.BudgetError):
        GuidedLogitsProcessor("a{9}", VOCABULARY, max_tokens=3)
    with pytest.raises(guided.GuidedError, match="leave the processor out"):
        GuidedLogitsProcessor(None, VOCABULARY)


def test_the_vocabulary_is_read_from_its_tokenizer():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, []))
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["</s>", "<other>"])
    assert vocabulary_of(SimpleNamespace(_tokenizer=backend, eos_token_ids={2, 3})).eos_token_ids == {2, 3}
    assert vocabulary_of(backend).eos_token_ids == {2}


@pytest.mark.parametrize(
    "needs_it",
    [
        lambda: importlib.import_module("guided.compat.xgrammar.contrib.mlxlm"),
        lambda: importlib.import_module("guided.compat.xgrammar.contrib").mlxlm,
        lambda: importlib.import_module("guided.compat.llguidance.mlx"),
        lambda: GuidedLogitsProcessor("ab", VOCABULARY)(np.array([1]), np.zeros((1, WIDTH), np.float32)),
    ],
)
def test_without_mlx_the_error_names_the_package(needs_it, monkeypatch):
    for name in ("mlx", "mlx.core"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("guided.compat.xgrammar.contrib.mlxlm", "guided.compat.llguidance.mlx"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"need the package mlx: pip install 'guided-decoding\[mlx-lm\]'"):
        needs_it()


def test_the_processor_of_xgrammars_interface(mx, monkeypatch):
    """The prompt is not part of the output, although the grammar may allow its last token."""
    xgr = importlib.import_module("guided.compat.xgrammar")
    monkeypatch.delitem(sys.modules, "guided.compat.xgrammar.contrib.mlxlm", raising=False)
    tokens = [bytes([byte]) for byte in range(256)]
    info = xgr.TokenizerInfo([*tokens, b"</s>"], vocab_size=WIDTH, stop_token_ids=[END])
    grammar = xgr.GrammarCompiler(info).compile_regex("[ab]{3}c{4}")
    processor, rng = xgr.contrib.mlxlm.XGrammarLogitsProcessor(grammar), random.Random(1)
    assert processor.vocab_size == WIDTH
    for _ in range(4):
        assert re.fullmatch("[ab]{3}c{4}", steps(mx, processor, b"say ab", 12, rng))
    logits = mx.array([[0.0] * WIDTH])
    processor(mx.array([1, 2]), logits)
    with pytest.raises(RuntimeError, match="another processor chose it"):
        processor(mx.array([1, 2, ord("z")]), logits)


def test_bitmasks_of_llguidances_interface(mx, monkeypatch):
    monkeypatch.delitem(sys.modules, "guided.compat.llguidance.mlx", raising=False)
    facade = importlib.import_module("guided.compat.llguidance.mlx")
    rng = random.Random(2)
    for rows, width in ((1, 40), (3, 64), (2, 5)):
        mask = np.array([guided.matching.bitmask.row_of(width, rng.sample(range(width), 4)) for _ in range(rows)])
        logits = np.array([[rng.gauss(0, 1) for _ in range(width)] for _ in range(rows)], np.float32)
        want = logits.copy()
        guided.apply_token_bitmask_inplace(want, mask)
        for found in (
            facade.apply_token_bitmask(mx.array(logits), mask),
            facade.apply_token_bitmask_kernel(mx.array(logits), mx.array(mask)),
        ):
            assert (np.array(found) == want).all()
        assert np.array(facade.apply_token_bitmask(mx.array(logits[0]), mask[0])).tolist() == want[:1].tolist()
    assert facade.get_bitmask_shape(2, 65) == (2, 3)
    with pytest.raises(AssertionError, match="Batch size mismatch"):
        facade.apply_token_bitmask(mx.array(logits), mask[:1])
    with pytest.raises(AssertionError, match="Mask must be int32"):
        facade.apply_token_bitmask(mx.array(logits), mask.astype(np.int64))


def test_it_imports_neither_torch_nor_mlx():
    code = "import sys, guided.integrations.mlx_lm; print({'torch', 'mlx', 'mlx_lm'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def small_model(seed):
    import mlx.core as core
    from mlx_lm.models import llama

    core.random.seed(seed)
    arguments = llama.ModelArgs(
        model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=48, num_attention_heads=4,
        num_key_value_heads=2, rms_norm_eps=1e-5, vocab_size=WIDTH,
    )  # fmt: skip
    return llama.Model(arguments)


@pytest.fixture(scope="module")
def generating():
    with warnings.catch_warnings():  # warnings of other packages during their import
        warnings.simplefilter("ignore")
        return importlib.import_module("mlx_lm.generate")


def taken(tokens):
    """The ids up to an end token."""
    ids = list[int]()
    for token in tokens:
        if token == END:
            break
        ids.append(token)
    return text(ids)


@needs_mlx
@pytest.mark.parametrize("prompt", [[5], list(b"a prompt of some tokens")])
def test_mlx_lm_generates_what_is_allowed(generating, prompt):
    import mlx.core as core

    model = small_model(1)
    processor = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=20)
    for seed in range(6):
        core.random.seed(seed)
        tokens = generating.generate_step(
            core.array(prompt), model, max_tokens=20, logits_processors=[processor],
            sampler=lambda scores: core.random.categorical(scores), prefill_step_size=4,
        )  # fmt: skip
        jsonschema.validate(json.loads(taken(token for token, _ in tokens)), SCHEMA)


@needs_mlx
def test_mlx_lm_drafts_and_takes_back(generating):
    """The greedy tokens are the same as without drafts, for any drafts of the smaller model."""
    import mlx.core as core

    model, draft = small_model(1), small_model(2)
    for number in range(4):
        prompt = core.array(list(b"prompt %d" % number))
        processor = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=30)
        options = {"max_tokens": 30, "logits_processors": [processor]}
        plain = taken(token for token, _ in generating.generate_step(prompt, model, **options))
        steps = generating.speculative_generate_step(prompt, model, draft, num_draft_tokens=3, **options)
        assert taken(token for token, *_ in steps) == plain
        jsonschema.validate(json.loads(plain), SCHEMA)


@needs_mlx
def test_mlx_lms_batch_generate_is_refused(generating):
    """A batch of equal rows needs different samples: while all ids are equal, so are the masks."""
    import mlx.core as core

    core.random.seed(1)
    options = {"max_tokens": 9, "logits_processors": [GuidedLogitsProcessor("[0-9]{4}", VOCABULARY, max_tokens=9)]}
    tokenizer = SimpleNamespace(eos_token_ids={END}, decode=taken)
    for prompts in PROMPTS[:4]:
        with pytest.raises(guided.GuidedError, match="a processor for each sequence"):
            generating.batch_generate(
                small_model(3), tokenizer, [list(prompt) for prompt in prompts],
                sampler=lambda scores: core.random.categorical(scores), **options,
            )  # fmt: skip
    response = generating.batch_generate(small_model(3), tokenizer, [[5]], **options)
    assert re.fullmatch("[0-9]{4}", response.texts[0])


@needs_mlx
def test_mlx_lms_batches_have_a_processor_for_each_row(generating):
    model, patterns = small_model(3), ["[ab]{3}", "x[0-9]*y", "(yes|no)"]
    processors = [[GuidedLogitsProcessor(pattern, VOCABULARY, max_tokens=12)] for pattern in patterns]
    batch = generating.BatchGenerator(model, stop_tokens=[[END]], completion_batch_size=4)
    uids = batch.insert([list(b"one"), [7], list(b"three")], [12] * 3, logits_processors=processors)
    written: dict[int, list[int]] = {uid: [] for uid in uids}
    while responses := batch.next_generated():
        for response in responses:
            written[response.uid].append(response.token)
    for uid, pattern in zip(uids, patterns, strict=True):
        assert re.fullmatch(pattern, taken(written[uid]))
