"""Captures and temperatures reach an engine's results and events, on a model with random weights."""

from __future__ import annotations

import json
import re

import pytest
import torch

import guided
from guided.cli.results import result_to_json
from guided.engine.engine import Engine
from guided.kernels.choose import answer
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.sampling.choice import Answer, Choose
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import every

LETTERS = [*(bytes([byte]) for byte in b"abcdefg,.:=01"), b"ab", b",c", b"=0", "é".encode()[:1], "é".encode()[1:]]
END, THINK = len(LETTERS), len(LETTERS) + 1
VOCABULARY = Vocabulary([*LETTERS, None, None], eos_token_ids=[END], special_tokens={END: "<end>", THINK: "</think>"})
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=32, context=256)
ENGINE = Engine(Llama.random(CONFIG, seed=4), VOCABULARY)
PAIRS = guided.lark(
    'start: "a:" pair{3} "."\npair: key "=" value ","\nkey[capture]: /[a-gé]{1,4}/\nvalue[capture="v"]: /[01]+/'
)

torch.set_num_threads(1)


def expected(text: str) -> dict[str, list[str]]:
    pairs = re.findall(r"([a-gé]+)=([01]+),", text[2:])
    return {"key": [key for key, _ in pairs], "v": [value for _, value in pairs]}


@pytest.mark.parametrize("seed", every(2, range(5)))
def test_results_and_events(seed: int) -> None:
    options = {"max_tokens": 60, "temperature": 1.0, "seed": seed}
    result = ENGINE.generate([0, 1], PAIRS, **options)
    assert result.captures == expected(result.text) and len(result.captures["key"]) == 3
    assert json.loads(json.dumps(result_to_json(result)))["captures"] == result.captures
    *events, last = ENGINE.stream([0, 1], PAIRS, **options)
    assert last.result is not None and last.result.captures == last.captures == result.captures
    written = ""
    for event in events:
        written += event.text
        for name, texts in expected(written).items():
            assert event.captures[name][: len(texts)] == texts
        open_texts = [text for texts in event.captures.values() for text in texts if text not in result.text]
        assert all("\ufffd" in text for text in open_texts)  # half of a character


def test_captures_of_the_answer_after_reasoning() -> None:
    result = ENGINE.generate([0, 1], PAIRS, max_tokens=90, temperature=1.0, seed=1, reasoning_end="</think>")
    assert result.captures == expected(result.text)


def test_grammars_without_captures() -> None:
    result = ENGINE.generate([0, 1], "[a-c]+", max_tokens=9)
    assert result.captures == {} and "captures" not in result_to_json(result)


def test_the_json_of_a_result_says_whether_the_budget_cut_it() -> None:
    for pattern, is_cut in (("[a-c]+", True), ("[a-c]{3}", False)):
        result = ENGINE.generate([0, 1], pattern, max_tokens=9, logit_bias={END: -100.0})
        assert (result.cut, result_to_json(result).get("cut")) == (is_cut, True if is_cut else None), pattern


def test_temperatures(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def noted(requests: list[Choose]) -> list[Answer]:
        seen.extend(choice.params.temperature for request in requests for choice in request.choices)
        return answer(requests)

    for module in ("answers", "stepper"):  # the latter is for a sequence whose steps are slow
        monkeypatch.setattr(f"guided.engine.{module}.answer", noted)
    grammar = guided.lark('start: /[a-c]/ "." hot /[a-c]/\nhot[temperature=0.7]: /[01]{5}/')
    text = ENGINE.generate([0, 1], grammar, max_tokens=20, temperature=0.25, drafts=4).text
    assert re.fullmatch(r"[a-c]\.[01]{5}[a-c]", text)
    assert seen == [0.25, *[0.7] * 5, 0.25]
