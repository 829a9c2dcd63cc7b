"""The processors for TensorRT-LLM, called with the signatures that `tensorrt_llm.sampling_params` documents."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from inspect import signature

import jsonschema
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

import guided  # noqa: E402
from guided.integrations.tensorrt_llm import GuidedBatchedLogitsProcessor, GuidedLogitsProcessor  # noqa: E402
from tests.canonical_support import huggingface  # noqa: E402

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": [1, "x"]}}, "required": ["a"]}
END = 256


def text(ids) -> str:
    return bytes(id for id in ids if id != END).decode()


def write(processor, req_id, prompt, beams, most, *, width=264, shuffled=False, widths=()):
    """Beams in the manner of the engine: it samples each, copies and reorders some, and pads finished ones with end
    tokens. `widths`: the numbers of beams at the first steps; one beam then continues as several.
    """
    rows = [list(prompt) for _ in range(beams)]
    for step in range(most):
        if step < len(widths):
            beams = widths[step]
            rows = [list(rows[at]) for at in (torch.randperm(beams) % len(rows)).tolist()]
        logits = torch.randn(1, beams, width, dtype=torch.float16)
        processor(req_id, logits, [list(row) for row in rows], None, None)
        assert torch.isinf(logits[:, :, 257:]).all()
        rows = [[*row, int(logits[0, at].argmax())] for at, row in enumerate(rows)]
        if shuffled and step + 1 >= len(widths):
            rows = [list(rows[at]) for at in torch.randint(beams, (beams,)).tolist()]
        if all(row[-1] == END for row in rows):
            break
    return [text(row[len(prompt) :]) for row in rows]


def test_the_signatures_match_the_documentation():
    own = [list(signature(each.__call__).parameters) for each in (GuidedLogitsProcessor, GuidedBatchedLogitsProcessor)]
    assert own[0] == ["self", "req_id", "logits", "token_ids", "stream_ptr", "client_id"]
    assert own[1] == ["self", "req_ids", "logits", "token_ids", "stream_ptr", "client_ids"]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_requests_and_beams_are_complete_within_their_budgets(beams, shuffled):
    processor = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=20)
    for req_id in range(6):
        for written in write(processor, req_id, b"prompt %d" % (req_id % 2), beams, 20, shuffled=shuffled):
            jsonschema.validate(json.loads(written), SCHEMA)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("widths", [(1, 2), (1, 4), (1, 2, 3, 5), (3, 5, 2, 1, 4)])
def test_the_number_of_beams_may_change(widths, shuffled):
    """TensorRT-LLM passes the prompt once and then each beam. The number of beams may also change later."""
    processor = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=20)
    for req_id in (1, 2, 1, 1):  # the same id again: another engine
        texts = write(processor, req_id, b"prompt %d" % req_id, widths[0], 20, shuffled=shuffled, widths=widths)
        assert len(texts) == widths[-1]
        for written in texts:
            jsonschema.validate(json.loads(written), SCHEMA)


def test_another_prompt_with_another_number_of_beams_begins_again():
    processor = GuidedLogitsProcessor("ab?c", VOCABULARY)
    for token_ids, allowed in (
        ([[1, 2]], "a"), ([[1, 2, ord("a")]] * 2, "bc"), ([[1, 2, ord("a"), ord("b")]] * 3, "c"),
        ([[1, 2]] * 3, "a"), ([[1, 3, ord("a")]], "a"), ([[1, 2], [1, 2]], "a"),
    ):  # fmt: skip
        logits = torch.zeros(1, len(token_ids), 257)
        processor(5, logits, token_ids, None, None)
        for row in logits[0]:
            assert text(torch.isfinite(row).nonzero().flatten().tolist()) == allowed


def test_requests_of_a_batch_are_followed_by_their_ids():
    processor, rows = GuidedBatchedLogitsProcessor("[ab]{3}", VOCABULARY), {7: [1], 8: [1, 2], 9: [3]}
    for step in range(5):
        running = [req_id for req_id in (9, 7, 8) if not (step == 1 and req_id == 8)]  # one of them pauses for a step
        logits = [torch.randn(1, 1, 257) for _ in running]
        processor(running, logits, [[rows[req_id]] for req_id in running], None, [None] * len(running))
        for req_id, own in zip(running, logits, strict=True):
            rows[req_id] = [*rows[req_id], int(own[0, 0].argmax())]
    assert all(re.fullmatch("[ab]{3}", text(rows[req_id][prompt:])) for req_id, prompt in ((7, 1), (8, 2), (9, 1)))


def test_canonical_masks_admit_what_the_tokenizer_writes():
    vocabulary = huggingface([(b"a", b"b")])
    processor = GuidedLogitsProcessor("(ab)+", vocabulary, max_tokens=9, canonical=True)
    assert processor.__reduce__()[0].keywords["canonical"] is True
    logits = torch.zeros(1, 1, vocabulary.size)
    processor(1, logits, [[1]], None, None)
    assert torch.isfinite(logits[0, 0]).nonzero().flatten().tolist() == [256]
    for options in ({"max_tokens": "3"}, {"canonical": None}):
        with pytest.raises(guided.OptionError, match="but must be"):
            GuidedLogitsProcessor("(ab)+", vocabulary, **options)


def test_it_is_restored_in_another_process(tmp_path):
    """TensorRT-LLM sends processors to its workers, which compile the constraint there."""
    import tokenizers

    backend = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "c": 2}, []))
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["</s>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    processor = GuidedLogitsProcessor("ab+", str(tmp_path / "tokenizer.json"), max_tokens=4)
    again = pickle.loads(pickle.dumps(processor))
    for one in (processor, again):
        logits = torch.zeros(1, 1, 4)
        one(1, logits, [[2]], None, None)
        assert torch.isfinite(logits).flatten().tolist() == [True, False, False, False]


def test_error_messages():
    processor = GuidedLogitsProcessor("ab", VOCABULARY)
    with pytest.raises(guided.GuidedError, match="belongs to another model"):
        processor(1, torch.zeros(1, 1, 99), [[1]], None, None)
    with pytest.raises(guided.GuidedError, match="2 beams, but ids for 1"):
        processor(1, torch.zeros(1, 2, 257), [[1]], None, None)
    with pytest.raises(guided.GuidedError, match="leave the processor out"):
        GuidedLogitsProcessor(None, VOCABULARY)
    with pytest.raises(guided.BudgetError):
        GuidedLogitsProcessor("a{9}", VOCABULARY, max_tokens=3)(1, torch.zeros(1, 1, 257), [[1]], None, None)
    processor(2, torch.zeros(1, 1, 257), [[1]], None, None)
    logits = torch.zeros(1, 1, 257)
    with pytest.warns(RuntimeWarning, match="does not allow"):
        processor(2, logits, [[1, ord("z")]], None, None)
    assert torch.isfinite(logits).sum() == 1 and torch.isfinite(logits[0, 0, END])


def test_the_state_of_requests_is_bounded():
    processor = GuidedLogitsProcessor("ab", VOCABULARY)
    for req_id in range(1500):
        processor(req_id, torch.zeros(1, 1, 257), [[1]], None, None)
    assert len(processor._requests) == 1024


def test_it_imports_neither_torch_nor_tensorrt_llm():
    code = "import sys, guided.integrations.tensorrt_llm; print({'torch', 'tensorrt_llm'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
