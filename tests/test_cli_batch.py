"""`guided generate`: sampling options, and --batch: ordered answers, errors by line, interruptions without loss."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.chat import ChatTemplate
from guided.cli import generate
from guided.cli.answers import AnswerFile, AnswersInOrder
from guided.cli.console import InputError
from guided.cli.lines import read_lines
from guided.cli.options import LINE_OPTIONS
from guided.engine import Engine
from guided.engine.request import Options
from guided.frontends.json_schema import JsonSchemaOptions
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.test_cli import run, run_json

torch.set_num_threads(1)
NAMES = ["<|im_start|>", "<|im_end|>", "<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"]
NAMES += ["<ask>", "</ask>", "<told>", "</told>", "</think>"]
SPECIAL = dict(enumerate(NAMES, 256))
ASK, ASKED = 262, 263


@pytest.fixture(scope="module")
def engine():
    vocabulary = Vocabulary(
        [*(bytes([b]) for b in range(256)), *[None] * len(NAMES)], eos_token_ids=[257], special_tokens=SPECIAL
    )
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    model = Llama.random(LlamaConfig(**sizes, vocab_size=vocabulary.size, context=400), seed=7)
    return Engine(model, vocabulary, chat=ChatTemplate(vocabulary))


@pytest.fixture(autouse=True)
def with_engine(engine, monkeypatch):
    monkeypatch.setattr(generate, "_load_engine", lambda arguments: engine)


# ---- options


def test_every_option_of_the_engine_is_there_and_explained():
    assert JsonSchemaOptions.__dataclass_fields__.keys() < Options.__annotations__.keys()
    assert set(LINE_OPTIONS) == {*Options.__annotations__, "n"}
    text = run("generate", "--help")[1]
    odd = {"include_stop_str_in_output": "include-stop", "tools": "tool", "additional_properties": "closed"}
    for name in LINE_OPTIONS:
        flag = odd.get(name, name.replace("_", "-"))
        assert re.search(rf"\n  --{flag}(?:,? (?:.*\n +)?|\n +).*\w", text), flag
    for line in re.findall(r"^  (\{.*\})$", text, re.MULTILINE):
        assert read_lines(line)[0].error is None


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--temperature", "1", "--min-p", "0.2", "--seed", "3"], {"temperature": 1.0, "min_p": 0.2, "seed": 3}),
        (
            ["--repetition-penalty", "1.3", "--presence-penalty", "-1"],
            {"repetition_penalty": 1.3, "presence_penalty": -1},
        ),
        (["--frequency-penalty", "2"], {"frequency_penalty": 2.0}),
        (["--logit-bias", "65=99", "--logit-bias", "66=99.5"], {"logit_bias": {65: 99.0, 66: 99.5}}),
        (
            ["--allowed-token-ids", "65, 66", "--bad-words", "65,65"],
            {"allowed_token_ids": [65, 66], "bad_words": [[65, 65]]},
        ),
        (["--stop", "b", "--stop", "a", "--stop-token-ids", "9,10"], {"stop": ["b", "a"], "stop_token_ids": [9, 10]}),
        (["--stop-regex", "[a-f]", "--include-stop"], {"stop_regex": ["[a-f]"], "include_stop_str_in_output": True}),
        (["--ignore-eos", "--min-tokens", "9"], {"ignore_eos": True, "min_tokens": 9}),
        (["--drafts", "4", "--top-k", "1", "--top-p", "1"], {"drafts": 4, "top_k": 1, "top_p": 1.0}),
        (["--logprobs", "2", "--logprobs-mode", "masked"], {"logprobs": 2, "logprobs_mode": "masked"}),
        (["--prompt-logprobs", "0"], {"prompt_logprobs": 0}),
    ],
)
def test_flags_are_options_and_so_are_members_of_a_line(engine, tmp_path, flags, options):
    want = engine.generate("abc", raw=True, max_tokens=20, **options)
    got = run_json("generate", "abc", "--raw", "--max-tokens", "20", *flags)
    assert (got["text"], got["tokens"], got.get("stop")) == (want.text, want.tokens, want.stop)
    assert [s["logprob"] for s in got.get("logprobs", [])] == [s.logprob for s in want.logprobs or []]
    assert len(got.get("prompt_logprobs", [])) == len(want.prompt_logprobs or [])
    line = {"prompt": "abc", "max_tokens": 20, **options}
    assert batch(tmp_path, [line], "--raw")[0][0]["tokens"] == want.tokens


def test_scores_of_forced_tokens():
    got = run_json("generate", "x", "--regex", "abc|abd", "--logprobs", "1", "--score-forced")
    assert all(score is not None for score in got["logprobs"])


def test_the_answer_does_not_contain_the_thoughts(engine, tmp_path):
    flags = ("generate", "x", "--regex", "[a-c]{3}", "--reasoning-end", "</think>", "--max-tokens", "20")
    got = run_json(*flags)
    assert re.fullmatch("[a-c]{3}", got["text"])
    assert isinstance(got["reasoning"], str)
    (tmp_path / "answer.json").write_text(json.dumps(got), encoding="utf-8")
    ids = ("--ids", str(tmp_path / "answer.json"), "--max-tokens", "20")
    assert run_json("verify", "--regex", "[a-c]{3}", *ids)["outputs"][0]["reasoning_tokens"] == got["reasoning_tokens"]
    code, out, err = run(*flags, "--stream")
    assert (code, out) == (0, got["text"] + "\n")
    assert err.startswith(got["reasoning"])
    events = [json.loads(line) for line in run(*flags, "--stream", "--json")[1].splitlines()]
    assert "".join(e["text"] for e in events if e.get("reasoning")) == got["reasoning"]
    free = run_json("generate", "x", "--reasoning-end", "</think>", "--max-tokens", "9")
    assert isinstance(free["reasoning"], str) and free["finish_reason"] in ("stop", "length")


def test_the_calculator(tmp_path):
    eager = ("--temperature", "1", "--max-tokens", "90", "--seed", "3")
    got = run_json("generate", "x", "--tool", "calculator", "--logit-bias", "258=6", "--logit-bias", "259=6", *eager)
    assert got["tool_calls"] and all(call["tool"] == "calculator" for call in got["tool_calls"])
    own = ("--tool", "calculator", "--tool-tokens", "<ask>", "</ask>", "<told>", "</told>")
    got = run_json("generate", "x", *own, "--logit-bias", f"{ASK}=6", "--logit-bias", f"{ASKED}=6", *eager)
    assert got["tool_calls"]
    line = {"prompt": "x", "tools": ["calculator"], "logit_bias": {"258": 6, "259": 6}}
    answers, _ = batch(tmp_path, [line, {**line, "regex": "a"}], *eager, code=1)
    assert answers[0]["tool_calls"]
    assert "only free text can contain calls" in answers[1]["error"]["message"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give one prompt or --batch FILE"),
        (["x", "--batch", "y"], "not both"),
        (["x", "-o", "y"], "belongs to --batch"),
        (["x", "--resume"], "belongs to --batch"),
        (["--batch", os.devnull, "--resume"], "--resume continues an --output file"),
        (["--batch", os.devnull, "--stream"], "remove --stream, or --batch"),
        (["--batch", "no/such"], "cannot read no/such"),
        (["--batch", os.devnull, "--indent", "2", "--whitespace", "compact"], "determine every gap"),
        (["x", "--tool", "calculator", "--regex", "a"], "only free text can contain calls"),
        (["x", "--tool-tokens", "a", "b", "c", "d"], "belongs to --tool"),
        (["x", "--tool", "calculator", "--tool-tokens", "a", "b", "c", "d"], "has no control token 'a'"),
        (["x", "--logit-bias", "65"], "not of the form ID=BIAS"),
        (["x", "--logit-bias", "65=101"], "not between -100 and 100"),
        (["x", "--logit-bias", "9999=1"], "9999"),
        (["x", "--stop-token-ids", "1,,2"], "'' is not an integer"),
        (["x", "--min-tokens", "9", "--max-tokens", "3"], "min_tokens is 9, but max_tokens is 3"),
        (["x", "--stop", ""], "nonempty"),
        (["x", "--stop", "a", "--regex", "b"], "a constraint determines where its output ends"),
        (["x", "--drafts", "65"], "65 is more than 64"),
    ],
)
def test_bad_options_have_exit_code_2_and_a_reason(flags, message):
    code, out, err = run("generate", *flags)
    assert (code, out) == (2, "")
    assert message in err


# ---- batches


def batch(directory: Path, lines, *flags, code=0):
    """The answers, and the messages on standard error."""
    path = directory / "requests.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    got, out, err = run("generate", "--batch", str(path), *flags)
    assert got == code, (out, err)
    return [json.loads(line) for line in out.splitlines()], err


ANSWERABLE = st.fixed_dictionaries(
    {"prompt": st.sampled_from(["a", "abc", "x" * 40]), "max_tokens": st.integers(8, 30), "seed": st.integers(0, 9)},
    optional={"temperature": st.sampled_from([0, 1.5]), "n": st.integers(1, 3), "system": st.nothing()},
)
SPECIFIED = st.sampled_from([{}, {"regex": "[a-c]{2,5}"}, {"choice": ["yes", "no"]}, {"schema": {"type": "boolean"}}])


@examples(20)
@given(st.lists(st.builds(lambda a, b: {**a, **b}, ANSWERABLE, SPECIFIED), max_size=8), st.booleans())
def test_a_batch_is_its_single_requests_in_order(engine, tmp_path_factory, lines, to_file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generate, "_load_engine", lambda arguments: engine)
        directory = tmp_path_factory.mktemp("batch")
        target = directory / "answers.jsonl"
        answers, err = batch(directory, lines, *(["-o", str(target)] if to_file else []))
    if to_file:
        assert answers == []
        answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert err == ("" if lines else f"{directory / 'requests.jsonl'} contains no requests\n")
    assert [answer["id"] for answer in answers] == [answer["line"] for answer in answers]
    assert [answer["line"] for answer in answers] == list(range(1, len(lines) + 1))
    for line, answer in zip(lines, answers, strict=True):
        options = {name: line[name] for name in ("max_tokens", "seed", "temperature", "n") if name in line}
        constraint = line.get("regex", line.get("choice", line.get("schema")))
        want = engine.generate([{"role": "user", "content": line["prompt"]}], constraint, **options)
        results = answer.get("results", [answer])
        want = want if isinstance(want, list) else [want]
        assert [(r["text"], r["tokens"], r["value"]) for r in results] == [(w.text, w.tokens, w.value) for w in want]


def test_lines_inherit_options_of_the_command_line(engine, tmp_path):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "who?"}]
    lines = [
        {"prompt": "who?"},
        {"messages": messages},
        {"prompt": "who?", "regex": "[d-f]+", "id": "own", "max_tokens": 4},
        {
            "prompt": "who?",
            "schema": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "temperature": None,
        },
        {"prompt": "who?", "gbnf": 'root ::= "x"\nlist ::= [g-i]+', "max_tokens": 3},
    ]
    flags = (
        "--root",
        "list",
        "--system",
        "be brief",
        "--regex",
        "[a-c]+",
        "--max-tokens",
        "12",
        "--separators",
        ",",
        ":",
        "--max-items",
        "2",
    )
    answers, _ = batch(tmp_path, lines, *flags, "--max-digits", "1")
    assert answers[0]["text"] == answers[1]["text"]
    assert re.fullmatch("[a-c]+", answers[0]["text"])
    assert (answers[2]["id"], answers[2]["line"]) == ("own", 3)
    assert re.fullmatch("[d-f]{1,4}", answers[2]["text"])
    assert re.fullmatch(r"\[-?\d,-?\d\]", answers[3]["text"])
    assert re.fullmatch("[g-i]{1,3}", answers[4]["text"])


WRONG = [
    ('{"prompt": "a" "n": 1}', "the line is not JSON: expecting ',' delimiter", 16),
    ('{"prompt": "a", "prompt": "b"}', "the key 'prompt' is written twice", 17),
    ('["a"]', "a request must be a JSON object", 1),
    ("{}", "a request needs a prompt or messages", 1),
    ('{"prompt": 1}', "prompt must be a string, not 1", 2),
    ('{"prompt": "a", "messages": []}', "prompt and messages cannot both be given", 17),
    ('{"prompt": "a", "regex": "b", "choice": ["c"]}', "regex and choice cannot both be given", 31),
    ('{"prompt": "a", "temprature": 1}', "did you mean 'temperature'?", 17),
    ('{"prompt": "a", "max_tokens": true}', "max_tokens must be an integer, not true", 17),
    ('{"prompt": "a", "logit_bias": {"b": 1}}', 'logit_bias must be an object such as {"17": -5}', 17),
    ('{"prompt": "a", "stop": [1]}', "stop must be a string or a list of strings", 17),
    ('{"prompt": "a", "tools": ["abacus"]}', "tools must be a list of tool names (calculator)", 17),
    ('{"prompt": "a", "schema": {"type": "intger"}}', "'intger' is not a type", 28),
    ('{"prompt": "a", "schema" : {"format": 1}}', "format must be a string, not 1", 29),
    ('{"prompt": "a", "temperature": NaN}', "NaN is not a JSON number", 32),
]
UNPLACED = [
    ('{"prompt": "a", "regex": "(b"}', "missing )"),
    ('{"prompt": "a", "gbnf": "root ::= (b"}', "rule 'b' is not defined"),
    (
        '{"prompt": "a", "gbnf": "root ::= <think>"}',
        "references to tokens by name or id are not allowed in this call",
    ),
    ('{"prompt": "a", "regex": "b{9}", "max_tokens": 5}', "the shortest known completion has 9 tokens"),
    ('{"prompt": "a", "max_tokens": 0}', "max_tokens is 0"),
    ('{"prompt": "a", "temperature": -1}', "temperature is -1"),
    ('{"prompt": "a", "top_k": 9' + "9" * 5000 + "}", "digits"),
    ('{"messages": [{"role": "clown", "content": "b"}]}', "the role 'clown'"),
    ('{"prompt": "' + "a" * 500 + '"}', "context holds 400"),
]


def test_bad_lines_are_reported_with_their_locations_and_stop_no_other(tmp_path):
    good = {"prompt": "a", "choice": ["yes", "no"]}
    lines = [entry for text, *_ in [*WRONG, *UNPLACED] for entry in (good, "", text)]
    answers, err = batch(tmp_path, lines, code=1)
    assert len(answers) == 2 * len(WRONG + UNPLACED)
    assert all(answer["text"] in ("yes", "no") for answer in answers[::2])
    for at, (_, message, *place) in enumerate([*WRONG, *UNPLACED]):
        number, error = 3 * at + 3, answers[2 * at + 1]["error"]
        assert answers[2 * at + 1]["line"] == number
        told = re.search(rf"requests\.jsonl, line {number}: (.*?)(?=\S*requests\.jsonl, line|\Z)", err, re.DOTALL)
        assert told is not None
        assert message in told[1]
        assert error["message"].split("\n")[0][:20] in told[1]
        if place:
            assert error["span"][0] == place[0] - 1
            caret = next(line for line in told[1].split("\n") if line.strip() and not line.strip(" ^"))
            assert caret.index("^") == 4 + place[0] - 1, told[1]


def test_a_line_that_is_refused_takes_no_id(tmp_path):
    good = {"prompt": "a", "choice": ["yes"]}
    lines = [
        {"id": 25, "prompt": "a", "choice": "yes"},
        {"id": 1, **good},
        "oops",
        {"id": 4, **good},
        {"id": 3, **good},
    ]
    answers, _ = batch(tmp_path, lines, code=1)
    assert [(answer["id"], answer["line"]) for answer in answers] == [(25, 1), (1, 2), ("line 3", 3), (4, 4), (3, 5)]
    assert [answer.get("text") for answer in answers] == [None, "yes", None, "yes", "yes"]


def test_a_line_names_a_grammar_that_comes_with_guided(tmp_path):
    lines = [{"prompt": "a", "grammar": "arithmetic", "max_tokens": 40}, {"prompt": "a", "grammar": "nope"}]
    answers, err = batch(tmp_path, [*lines, {"prompt": "a", "choice": ["yes"]}], code=1)
    assert answers[0]["finish_reason"] == "stop" and set(answers[0]["text"]) <= set("0123456789.+-*/() \t\n")
    assert "no grammar 'nope' comes with guided" in answers[1]["error"]["message"] and "nope" in err
    assert answers[2]["text"] == "yes"


def test_ids(tmp_path):
    lines = [{"prompt": "a", "id": "x"}, {"prompt": "a", "id": 1}, {"prompt": "a", "id": "x"}, {"prompt": "a"}]
    answers, err = batch(tmp_path, lines, "--choice", "yes", code=1)
    assert [a["id"] for a in answers] == ["x", 1, "x", 4]
    assert "line 1 has the same id 'x'" in err
    assert "error" in answers[2] and "text" in answers[3]


def test_an_empty_batch_and_lines_from_standard_input(monkeypatch):
    assert run("generate", "--batch", os.devnull) == (0, "", f"{os.devnull} contains no requests\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO('{"prompt": "naïve?"}\r\n\r\n'.encode())))
    code, out, _ = run("generate", "--batch", "-", "--choice", "yes")
    assert (code, json.loads(out)["text"]) == (0, "yes")


# ---- answers of earlier runs


@given(st.permutations(range(7)), st.integers(0, 7))
def test_answers_come_in_order_whatever_came_first(order, count):
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        answers = AnswersInOrder()
        for at, number in enumerate(order[:count]):
            answers.write(number, str(number))
            known = order[: at + 1]
            first = next(n for n in range(8) if n not in known)
            assert out.getvalue() == "".join(f"{n}\n" for n in range(first))
        answers.close()
    assert out.getvalue() == "".join(f"{n}\n" for n in sorted(order[:count]))


@examples(40)
@given(st.permutations(range(6)), st.lists(st.integers(0, 6), max_size=3), st.integers(0, 40), st.booleans())
def test_finished_lines_survive_any_failure(tmp_path_factory, order, breaks, cut, closing):
    """Runs that end at any point, some without a message and in the middle of a line. The last run finishes."""
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    keys = [(f"é{n}" if n % 2 else n, "digest") for n in range(6)]
    text = [json.dumps({"id": id, "request": "digest", "n": n}, ensure_ascii=False) for n, (id, _) in enumerate(keys)]
    done = set[int]()
    for last in [*breaks, 6]:
        file = AnswerFile(path, keys, resume=True)
        assert file.kept_numbers == done
        for number in [n for n in order if n not in done][:last]:
            file.write(number, text[number])
            done.add(number)
        if closing or last == 6:
            file.close()
            assert path.read_text().splitlines() == [text[n] for n in sorted(done)]
        else:
            file._file.close()
            with path.open("ab") as torn:
                torn.write(text[1].encode()[:cut])
    assert done == set(range(6))


def test_a_file_is_not_written_over(tmp_path):
    lines = [{"prompt": "a", "id": "a"}, {"prompt": "b", "id": "b", "regex": "("}, {"prompt": "c", "id": "c"}]
    target, flags = tmp_path / "answers.jsonl", ("--choice", "yes,no", "-o", str(tmp_path / "answers.jsonl"))
    batch(tmp_path, lines, *flags, code=1)
    before = target.read_text()
    assert "is not empty: continue it with --resume" in batch(tmp_path, lines, *flags, code=2)[1]
    assert target.read_text() == before
    lines[1].pop("regex")  # repaired; the other answers are not generated again
    _, err = batch(tmp_path, lines, *flags, "--resume")
    assert err.startswith("2 of 3 requests are already answered\n")
    after = target.read_text().splitlines()
    assert [json.loads(line)["id"] for line in after] == ["a", "b", "c"]
    assert [after[0], after[2]] == [before.splitlines()[0], before.splitlines()[2]]
    for other in (("--kv-dtype", "int8"), ("--max-tokens", "9"), ("--max-tokens", "9", "--adapter", "directory")):
        _, err = batch(tmp_path, lines, *flags, "--resume", *other)
        assert "0 of 3" in err and "3 answers belong to other requests" in err
    assert "an answer to 'a', which is not in the batch" in batch(tmp_path, lines[1:], *flags, "--resume", code=2)[1]
    target.write_text("no answer\n")
    assert "line 1: this is not an answer" in batch(tmp_path, lines, *flags, "--resume", code=2)[1]
    with pytest.raises(InputError, match=r"--output .* is a directory"):
        AnswerFile(tmp_path, [], resume=True)


def test_an_interrupt_keeps_finished_answers(engine, tmp_path, monkeypatch):
    lines = [{"prompt": "a" * n, "max_tokens": 5 + 8 * (n % 3), "ignore_eos": True} for n in range(1, 9)]
    step, target = engine.scheduler.step, tmp_path / "answers.jsonl"

    def stop_after_some():
        if target.exists() and target.read_text():
            raise KeyboardInterrupt
        return step()

    monkeypatch.setattr(engine.scheduler, "step", stop_after_some)
    _, err = batch(tmp_path, lines, "-o", str(target), code=130)
    assert "interrupted; finished answers are kept: --resume continues" in err
    some = [json.loads(line)["id"] for line in target.read_text().splitlines()]
    assert 0 < len(some) < 8
    assert some == sorted(some)
    assert engine.scheduler.running_count == engine.scheduler.waiting_count == 0
    monkeypatch.setattr(engine.scheduler, "step", step)
    _, err = batch(tmp_path, lines, "-o", str(target), "--resume")
    assert f"{len(some)} of 8 requests" in err
    whole = target.read_text().splitlines()
    target.unlink()
    batch(tmp_path, lines, "-o", str(target))
    fresh = [json.loads(line) for line in target.read_text().splitlines()]
    assert [json.loads(line)["tokens"] for line in whole] == [answer["tokens"] for answer in fresh]


def test_shakespeare_killed_and_resumed(tmp_path):
    """The shipped model in another process, which is killed without cleanup."""
    generator = random.Random(5)
    path, target = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    lines = [
        {
            "prompt": "\n",
            "regex": f"[A-Z]+:\n[A-Za-z ',]{{{generator.randrange(20, 60)}}}\n",
            "seed": n,
            "max_tokens": 90,
        }
        for n in range(16)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    command = [sys.executable, "-m", "guided", "generate", "--batch", str(path), "-o", str(target), "--raw"]
    command += ["--model", "shakespeare", "--temperature", "0.8", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while not (target.exists() and target.read_bytes().count(b"\n") >= 2):
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=True)
    assert re.match(r"\d+ of 16 requests are already answered", done.stderr)
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert [answer["line"] for answer in answers] == list(range(1, 17))
    for line, answer in zip(lines, answers, strict=True):
        assert re.fullmatch(line["regex"], answer["text"])
        assert answer["seed"] == line["seed"]
