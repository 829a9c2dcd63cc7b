"""The command line: exit codes, text and JSON, refusals. Its verdicts are compared with `re` and the jsonschema
package.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.chat import ChatTemplate
from guided.cli import generate, main
from guided.cli.console import Progress
from guided.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary import Vocabulary
from tests.effort import examples

EXAMPLES = Path(__file__).parent.parent / "examples"
ORDER = str(EXAMPLES / "order.schema.json")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
COMMANDS = ("generate", "check", "explain", "verify", "sample", "lint", "bench")


KINDS = "--schema --type --regex --lark --gbnf --grammar --structural-tag --choice --pattern"


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = exit.code
    assert isinstance(code, int)
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue(), err.getvalue()


def run_json(*arguments: str, code: int = 0):
    got, out, err = run(*arguments, "--json")
    assert got == code, (out, err)
    return json.loads(out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_examples(command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.count(f"  guided {command} ") >= 3
    assert "exit codes:" in out


def test_no_command_and_version():
    assert run()[0] == 2
    assert run("--help")[0] == 0
    assert re.fullmatch(r"guided \d+\.\d+\.\d+\n", run("--version")[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--regex", "a(b"], "a(b\n     ^"),
        (["check", "--schema", '{"type": "integer"'], "line 1, column 19"),
        (["check", "--schema", '{"type": "intger"}'], "intger"),
        (["check", "--schema", "no/such/file"], "cannot read no/such/file: No such file or directory"),
        (["check", "--schema", "{}", "--dialect", "ecma"], "--dialect belongs to --regex, not to --schema"),
        (["check", "--regex", "a", "--closed"], "--closed belongs to --schema or --structural-tag, not to --regex"),
        (["check", "--regex", "a", "--root", "x"], "--root belongs to --gbnf, not to --regex"),
        (["check", "--gbnf", "root ::= itm\nitem ::= [a]"], "did you mean 'item'?"),
        (["check", "--gbnf", "a ::= [b]"], "hint: --root names the start rule"),
        (["check", "--gbnf", "root ::= <think>"], "--allow-special-tokens allows control tokens"),
        (["check", "--gbnf", "root = x"], "a grammar on the command line must contain a rule, name ::= ..."),
        (
            ["generate", "x", "--max-items", "3"],
            "--max-items belongs to --schema or --structural-tag, which is not given",
        ),
        (["check", "--regex", "a", "--choice", "b"], "not allowed with argument"),
        (["check"], f"one of the arguments {KINDS} is required"),
        (["check", "--choice", "a\\"], "single backslash"),
        (["check", "--pattern", "UPER+"], "did you mean 'UPPER'?"),
        (["check", "--schema", "{}", "--indent", "2", "--whitespace", "compact"], "determine every gap"),
        (["sample", "--regex", "[^\\s\\S]"], "guided sample: "),
        (["sample", "--regex", "a{9}", "--max-length", "8"], "the shortest text has 9 bytes, but --max-length is 8"),
        (["sample", "--regex", "a", "--n", "0"], "0 is less than 1"),
        (["generate", "x", "--temperature", "nan"], "nan is not a finite number"),
        (["generate", "x", "--temperature", "inf"], "inf is not a finite number"),
        (["generate", "x", "--temperature", "-1"], "not at least 0"),
        (["generate", "x", "--top-p", "0"], "not between"),
        (["generate", "x", "--seed", str(2**64)], "is more than"),
        (["check", "--regex", "\udcff"], "guided check: "),
        (["check", "--choice", "\udcff"], "lone surrogate"),
        (["generate", "x", "--regex", "(a"], "SpecError"),
        (["generate", "x", "--raw", "--system", "y"], "--system cannot be combined with --raw"),
        (["explain", "--regex", "a", "--vocabulary", "nothing"], "neither a file nor a known model"),
        (["explain", "--regex", "a", "--vocabulary", __file__], "unknown kind of tokenizer file"),
        (["explain", "--regex", "a", "--eos", "3"], "not to --vocabulary bytes"),
        (["explain", "--regex", "a", "--token", "257"], "not an id of this vocabulary (0 to 256)"),
        (["explain", "--regex", "a", "--pre", "b"], "unknown option --pre; did you mean --prefix?"),
        (["chekc"], "guided: unknown command 'chekc'; did you mean check?"),
        (["frobnicate"], "unknown command 'frobnicate'; the commands are generate, check"),
        ([], "guided: a command is missing; the commands are generate"),
        (["check", "--shcema", "x"], "guided check: unknown option --shcema; did you mean --schema?"),
        (["check", "--regex", "a", "b", "c"], "unexpected argument 'b'"),
        (["check", "--regex", "a", "--zzz"], "guided check: unknown option --zzz\n"),
        (["check"], f"one of the arguments {KINDS} is required"),
        (["generate", "--tempreature=3", "hi"], "unknown option --tempreature; did you mean --temperature?"),
    ],
)
def test_bad_input_has_exit_code_2_and_a_reason(arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert message in err
    assert not out and "usage:" not in err
    assert out == ""


def test_errors_of_arguments_are_json_with_json():
    code, out, err = run("check", "--regex", "a", "--json", "--shema", "b")
    assert (code, err) == (2, "")
    message = "unknown option --shema; did you mean --schema?"
    assert json.loads(out) == {"error": {"type": "UsageError", "message": message}}


def test_errors_are_json_for_machines():
    error = run_json("check", "--regex", "a(b", code=2)["error"]
    assert (error["type"], error["span"]) == ("SpecError", [1, 2])
    assert run_json("check", "--schema", "nowhere", code=2)["error"]["type"] == "InputError"
    refused = run_json("check", "--schema", '{"format": "color"}', "--unknown-format", "refuse", code=1)
    assert refused["error"]["pointer"] == "/format"
    assert [entry["status"] for entry in refused["entries"]] == ["refused"]


def test_files_of_the_wrong_kind(tmp_path):
    path = tmp_path / "s.json"
    path.write_bytes(b'{"type": "\xff"}')
    assert "byte 0xff at offset 10" in run("check", "--schema", str(path))[2]
    assert run("check", "--schema", str(tmp_path))[0] == 2
    (tmp_path / "directory.gguf").mkdir()
    assert "directory.gguf" in run("explain", "--regex", "a", "--vocabulary", str(tmp_path / "directory.gguf"))[2]
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    assert "VocabularyError" in run("explain", "--regex", "a", "--vocabulary", str(tmp_path / "broken.gguf"))[2]
    assert run("check", "--schema", "a\0b")[0] == 2


# ---- check


@given(st.text("abc\n", max_size=6))
@examples(40)
def test_check_is_fullmatch(text):
    pattern = r"a(b|c+)*\n?"
    matches = re.fullmatch(pattern, text) is not None
    got = run_json("check", "--regex", pattern, "--text", text, code=0 if matches else 1)["texts"][0]
    assert got["matches"] == matches
    if not matches:  # a text counts as matching up to the location, and so does the completion
        assert re.fullmatch(pattern, text[: got["place"]["offset"]] + got["place"]["completion"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 120) | st.text('ab\n"é', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "age", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(st.builds(lambda n, a: {"age": a, "name": n}, VALUES, VALUES) | VALUES, st.sampled_from([None, 1]))
@examples(40)
def test_check_agrees_with_jsonschema(value, indent):
    valid = jsonschema.Draft202012Validator(PERSON).is_valid(value)
    text = json.dumps(value, indent=indent)
    got = run_json("check", "--schema", json.dumps(PERSON), "--text", text, code=0 if valid else 1)
    assert got["texts"][0]["matches"] == valid


def test_check_reports_each_keyword():
    code, out, _ = run("check", "--schema", ORDER)
    assert code == 0
    assert "enforced    /properties/order_number/pattern\n" in out
    assert "compiles; the shortest text is '{" in out
    code, out, _ = run("check", "--schema", '{"format": "color", "title": "t"}', "--unknown-format", "refuse")
    assert code == 1
    assert "refused     /format" in out
    assert "hint: " in out
    assert "annotation  /title" in out


def test_check_shows_the_place(tmp_path):
    path = tmp_path / "instance.json"
    path.write_text('{"name": "Ada",\n "age": "x"}\n')
    code, out, _ = run("check", "--schema", json.dumps(PERSON), "--instance", str(path))
    assert code == 1
    assert '     "age": "x"}\n' + " " * 12 + "^\nline 2, column 9: not allowed here; expected " in out
    assert "required by " in out
    path.write_text('\n{"age": 36, "name": "Ada"}\n')
    assert run("check", "--schema", json.dumps(PERSON), "--instance", str(path))[0] == 0
    ordered = ("--property-order", "declared")
    assert run("check", "--schema", json.dumps(PERSON), "--instance", str(path), *ordered)[0] == 1


def test_check_refuses_without_saying_no_to_the_text():
    refused = run_json("check", "--regex", r"(a+)\1", "--text", "aa", code=1)
    assert refused["compiles"] is False
    assert refused["texts"] == []


@pytest.mark.parametrize(
    ("given_choices", "texts"),
    [("a,b", ["a", "b"]), (r"a\,b", ["a,b"]), (r"a\\,b", ["a\\", "b"]), ("a,", ["a", ""]), ("", [""])],
)
def test_choices(given_choices, texts):
    got = run_json("check", "--choice", given_choices, *(f"--text={text}" for text in texts))
    assert all(text["matches"] for text in got["texts"])
    assert run("check", "--choice", given_choices, "--text", "c")[0] == 1


def test_patterns():
    assert run("check", "--pattern", "UPPER+ : SPACE LOWER+ NEWLINE", "--text", "AB: c\n")[0] == 0
    assert run("check", "--pattern", "UPPER+ : SPACE LOWER+ NEWLINE", "--text", ": c\n")[0] == 1
    assert run("check", "--pattern", "++ +", "--text", "+++")[0] == 0


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"type": "null"}')))
    assert run("check", "--schema", "-", "--text", "null")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    code, _, err = run("check", "--schema", "-", "--instance", "-")
    assert code == 2
    assert "only once" in err


# ---- sample


@given(st.integers(0, 10_000), st.sampled_from(["ascii", "any"]))
@examples(15)
def test_samples_are_sentences(seed, characters):
    common = ("--n", "5", "--seed", str(seed), "--max-length", "300", "--characters", characters)
    schema = json.loads(Path(ORDER).read_text())
    for text in run_json("sample", "--schema", ORDER, *common)["texts"]:
        jsonschema.validate(json.loads(text), schema)
        assert len(text.encode()) <= 300
    for text in run_json("sample", "--regex", r"\w{2,4}-[^a]*", *common)["texts"]:
        assert re.fullmatch(r"\w{2,4}-[^a]*", text)


def test_samples_repeat_with_their_seed_and_reach_everything():
    first = run("sample", "--regex", "[a-d]{3}", "--n", "3", "--seed", "1")
    assert first == run("sample", "--regex", "[a-d]{3}", "--n", "3", "--seed", "1")
    assert first[1].count("\n") == 3
    fresh = run_json("sample", "--choice", "a,bb,é", "--n", "200", "--characters", "any")
    assert set(fresh["texts"]) == {"a", "bb", "é"}
    again = run_json("sample", "--choice", "a,bb,é", "--n", "200", "--seed", str(fresh["seed"]), "--characters", "any")
    assert again == fresh
    assert run("sample", "--regex", "a?", "--max-length", "0")[1] == "\n"


# ---- explain


def test_explain_what_may_follow():
    code, out, _ = run("explain", "--regex", "ab*", "--prefix", "a")
    assert code == 0
    assert "expected 'b' or the end\n" in out
    assert "shortest way to finish: ''" in out


def test_explain_a_refusal():
    schema = json.dumps(PERSON)
    code, out, _ = run("explain", "--schema", schema, "--prefix", '{"name": "', "--text", "Ada Lo")
    assert code == 1
    assert '    {"name": "Ada Lo\n' + " " * 19 + "^\n" in out
    assert "required by " in out
    got = run_json("explain", "--schema", schema, "--prefix", '{"name": "', "--text", "Ada Lo", code=1)
    assert (got["accepted"], got["read"], got["place"]["column"]) == (False, 5, 16)
    assert '"age":0}' in got["after_prefix"]["completion"]
    assert run("explain", "--schema", schema, "--prefix", '{"name": "', "--text", "Ada L")[0] == 0


def test_explain_a_prefix_that_is_wrong_itself(tmp_path):
    code, out, _ = run("explain", "--regex", "ab*", "--prefix", "ax")
    assert code == 1
    assert "the prefix itself is not allowed\n    ax\n     ^\n" in out
    path = tmp_path / "prefix"
    path.write_bytes(b"ab")
    assert run_json("explain", "--regex", "ab*", "--prefix-file", str(path))["prefix_accepted"]


def test_explain_over_a_vocabulary(tmp_path):
    ranks = ["YQ== 0", "Yg== 1", "YWI= 2", "YmI= 3"]  # a, b, ab, bb
    path = tmp_path / "small.tiktoken"
    path.write_text("\n".join(ranks) + "\n")
    assert "--eos" in run("explain", "--regex", "a", "--vocabulary", str(path))[2]
    common = ("--vocabulary", str(path), "--eos", "4")
    got = run_json("explain", "--regex", "ab{3}", *common)
    assert got["allowed_tokens"] == [0, 2]
    assert got["min_tokens_to_finish"] == 3
    got = run_json("explain", "--regex", "ab{3}", "--prefix", "ab", "--token", "4", *common, code=1)
    assert "the output is not complete" in got["reason"]
    code, out, _ = run("explain", "--regex", "ab{3}", "--prefix", "ab", "--token", "3", *common)
    assert code == 0
    assert "token 3 is 'bb'\nallowed\n" in out


# ---- bench


def test_bench(tmp_path):
    got = run_json("bench", "--schema", ORDER, "--n", "2")
    assert got["texts"] == 2
    assert got["steps"] >= 300
    assert got["mask_us_again"]["p50"] <= got["mask_us_first_visit"]["max"]
    path = tmp_path / "text"
    path.write_text("ab" * 20)
    assert run_json("bench", "--regex", "(ab)*", "--instance", str(path))["steps"] == 41
    path.write_text("abc")
    code, _, err = run("bench", "--regex", "(ab)*", "--instance", str(path))
    assert code == 2
    assert "line 1, column 3" in err
    assert "first visit p50" in run("bench", "--regex", "a{3}")[1]


# ---- generate


@pytest.fixture(scope="module")
def engine():
    torch.set_num_threads(1)
    special = {256: "<|im_start|>", 257: "<|im_end|>"}
    vocabulary = Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[257], special_tokens=special)
    sizes = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
    model = Llama.random(LlamaConfig(**sizes, vocab_size=258, context=400), seed=7)
    return Engine(model, vocabulary, chat=ChatTemplate(vocabulary))


@pytest.fixture
def with_engine(engine, monkeypatch):
    monkeypatch.setattr(generate, "_load_engine", lambda arguments: engine)


def test_a_model_is_loaded_with_the_options(engine, monkeypatch):
    asked = []

    def load(name, **options):
        asked.append({"name": name, **options})
        return engine

    monkeypatch.setattr(Engine, "from_pretrained", load)
    monkeypatch.setattr("guided.files.hub.find_model", Path)
    how = ("--model", "m.gguf", "--device", "cpu", "--dtype", "float32", "--kv-dtype", "int8", "--adapter", "lora")
    how += ("--tensor-parallel", "2", "--pipeline-parallel", "3", "--draft-model", "small.gguf", "--context", "99")
    assert run("generate", "x", "--regex", "ab", *how)[:2] == (0, "ab\n")
    wanted = {"name": "m.gguf", "adapter": "lora", "device": "cpu", "dtype": "float32", "kv_dtype": "int8"}
    wanted |= {"tensor_parallel": 2, "pipeline_parallel": 3, "draft_model": "small.gguf", "context": 99}
    assert asked == [wanted | {"describe": None}]  # the model's size decides, or the request itself
    assert run("generate", "x", "--kv-dtype", "int4")[0] == 2


@pytest.mark.usefixtures("with_engine")
def test_generate():
    person = ("generate", "who?", "--schema", json.dumps(PERSON), "--max-tokens", "60")
    code, out, err = run(*person)
    assert (code, err) == (0, "")
    jsonschema.validate(json.loads(out), PERSON)
    got = run_json(*person)
    assert got["text"] + "\n" == out
    assert got["value"] == json.loads(out)
    assert (got["finish_reason"], len(got["tokens"])) == ("stop", len(got["token_masks"]))
    answers = run_json(*person, "--n", "3", "--temperature", "1", "--seed", "3")
    assert [answer["seed"] for answer in answers] == [3, 4, 5]
    assert run(*person, "--n", "2", "--temperature", "1", "--seed", "3")[1].splitlines() == [
        a["text"] for a in answers[:2]
    ]


@pytest.mark.usefixtures("with_engine")
def test_generate_streams():
    person = ("generate", "who?", "--schema", json.dumps(PERSON), "--max-tokens", "60")
    assert run(*person, "--stream")[1] == run(*person, "--no-stream")[1]
    code, out, _ = run(*person, "--stream", "--json")
    assert code == 0
    *events, last = map(json.loads, out.splitlines())
    assert "".join(event["text"] for event in [*events, last]) == last["result"]["text"]
    assert [token for event in events for token in event["tokens"]] == last["result"]["tokens"]
    assert run(*person, "--stream", "--n", "2")[0] == 2


@pytest.mark.usefixtures("with_engine")
def test_generate_captures():
    order = ("generate", "x", "--lark", 'start: "a" n "."\nn[capture, max_tokens=3]: /[0-9]+/')
    answer = run_json(*order)
    assert answer["captures"] == {"n": [answer["text"][1:-1]]} and len(answer["text"]) <= 5
    *events, last = map(json.loads, run(*order, "--stream", "--json")[1].splitlines())
    assert last["result"]["captures"] == answer["captures"] and events[-1]["captures"] == answer["captures"]


@pytest.mark.usefixtures("with_engine")
def test_generate_with_each_kind_and_without_one(monkeypatch):
    assert re.fullmatch(r"[a-c]{4}\n", run("generate", "x", "--regex", "[a-c]{4}")[1])
    assert run("generate", "x", "--choice", "yes,no")[1] in ("yes\n", "no\n")
    assert re.fullmatch(r"[A-Z]+:\n", run("generate", "x", "--pattern", "A :")[1])
    code, _, err = run("generate", "x", "--raw", "--max-tokens", "3")
    assert code == 0
    assert "cut off after 3 tokens" in err
    code, _, err = run("generate", "x", "--regex", "a{9}", "--max-tokens", "8")
    assert code == 2
    assert "the shortest known completion has 9 tokens, but the budget is 8" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("naïve?".encode())))
    assert run("generate", "-", "--choice", "a,b")[0] == 0


def test_a_device_that_is_not_there():
    code, _, err = run("generate", "x", "--device", "nothing")
    assert code == 2
    assert "--device nothing cannot be used" in err


# ---- processes


def test_the_module_runs_and_survives_a_closed_pipe():
    command = [sys.executable, "-m", "guided"]
    done = subprocess.run([*command, "check", "--regex", "é", "--text", "é"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    assert "'é'".encode() in done.stdout
    endless = [*command, "sample", "--regex", "a{200}", "--n", "100000"]
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_speaks_after_two_seconds_on_a_terminal(monkeypatch, terminal):
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr("guided.cli.console._PROGRESS_DELAY_SECONDS", 0.01)
    with Progress("thinking"):
        for _ in range(1000 if terminal else 10):
            if err.getvalue():
                break
            time.sleep(0.01)
    assert err.getvalue() == ("\rthinking: 0 s\n" if terminal else "")


def test_structural_tags_are_specifications(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}'
    file = tmp_path / "tag.json"
    file.write_text(spec)
    for way in (spec, str(file)):
        assert main(["check", "--structural-tag", way, "--text", "ab"]) == 0
        assert "matches" in capsys.readouterr().out
    assert main(["check", "--structural-tag", spec.replace("const_string", "const_strin"), "--text", "ab"]) != 0
    assert "did you mean 'const_string'" in capsys.readouterr().err
