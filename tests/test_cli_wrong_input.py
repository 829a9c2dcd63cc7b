"""Wrong input on the command line: every message says what is wrong and what to do."""

from __future__ import annotations

import io
import json
import re
import shlex
import socket
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest

import guided
from guided.cli import bench, check, console, explain, generate, lint, sample, serve, verify
from guided.cli.console import InputError, read_text
from tests.test_cli import COMMANDS, engine, run, run_json  # noqa: F401 (a fixture)
from tests.test_vocabulary_gguf import byte_level_file
from tests.test_vocabulary_readers import byte_level_json
from tests.vocabulary_support import ranks_file

SPECIFIED = {
    "generate": ["generate", "Who?"],
    "check": ["check"],
    "explain": ["explain"],
    "sample": ["sample"],
    "lint": ["lint"],
    "bench": ["bench"],
    "verify": ["verify", "--text", "1"],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def with_engine(engine, monkeypatch):  # noqa: F811
    monkeypatch.setattr(generate, "_load_engine", lambda arguments: engine)


def stdin(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# ---- files


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"abc", "abc"),
        (b"abc\n", "abc"),
        (b"abc\r\n", "abc"),
        (b"abc\n\n", "abc\n"),
        (b"abc\r", "abc\r"),
        (b"\n", ""),
        (b"a\r\nb\r\n", "a\r\nb"),
        (b"\xef\xbb\xbfabc\n", "abc"),
        (b"\xef\xbb\xbf\xef\xbb\xbfabc", "\ufeffabc"),
        ("é語\n".encode(), "é語"),
    ],
)
def test_a_byte_order_mark_and_the_final_line_break_belong_to_the_file(tmp_path, monkeypatch, data, text):
    path = tmp_path / "file"
    path.write_bytes(data)
    assert read_text(str(path)) == text
    stdin(monkeypatch, data)
    assert read_text("-") == text


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("front", [b"", b"\xef\xbb\xbf"])
@pytest.mark.usefixtures("with_engine")
def test_files_mean_the_same_wherever_they_are_named(tmp_path, monkeypatch, front, end):
    def file(name: str, text: str) -> str:
        (tmp_path / name).write_bytes(front + text.encode() + end)
        return str(tmp_path / name)

    assert run("check", "--schema", file("s", '{"type": "null"}'), "--instance", file("i", "null"))[0] == 0
    assert run("check", "--regex", "ab", "--instance", file("i", "ab"))[0] == 0
    assert run_json("explain", "--regex", "ab", "--prefix-file", file("p", "a"))["after_prefix"]["column"] == 2
    assert run_json("bench", "--regex", "ab", "--instance", file("i", "ab"))["steps"] == 3
    want = run("generate", "Who?", "--choice", "yes,no", "--json")[1]
    stdin(monkeypatch, front + b"Who?" + end)
    got = json.loads(run("generate", "-", "--choice", "yes,no", "--json")[1])
    assert (got["prompt_tokens"], got["tokens"]) == (json.loads(want)["prompt_tokens"], json.loads(want)["tokens"])
    lines = b'{"prompt": "a", "choice": ["x"]}' + (end or b"\n") + b'{"prompt": "b", "choice": ["y"]}'
    (tmp_path / "batch").write_bytes(front + lines + end)
    code, out, err = run("generate", "--batch", str(tmp_path / "batch"))
    assert (code, err) == (0, "")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["x", "y"]


@pytest.mark.parametrize("option", ["schema", "instance", "prefix", "batch"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("", "the name of a file is empty"),
        ("missing", "cannot read missing: No such file or directory"),
        ("directory", "directory is a directory, not a file"),
        ("picture", "picture is not UTF-8 text: byte 0x89 at offset 0, in line 1"),
        ("binary", "binary is not UTF-8 text: byte 0x80 at offset 5, in line 2"),
        ("utf16", "utf16 is UTF-16 text; save it as UTF-8"),
        ("large", "large is larger than 1 MiB"),
        ("/dev/zero", "/dev/zero is larger than 1 MiB"),
        ("nul\0", "cannot read nul\0: embedded null byte"),
    ],
)
def test_files_that_are_not_text(tmp_path, monkeypatch, option, what, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "_MAX_BYTES", 1 << 20)
    Path("directory").mkdir()
    Path("picture").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    Path("binary").write_bytes(b"text\n\x80")
    Path("utf16").write_bytes("text".encode("utf-16"))
    Path("large").write_bytes(b" " * (1 << 20) + b"x")
    command = {
        "schema": ["check", "--schema", what],
        "instance": ["check", "--regex", "a", "--instance", what],
        "prefix": ["explain", "--regex", "a", "--prefix-file", what],
        "batch": ["generate", "--batch", what],
    }[option]
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert err.startswith(f"guided {command[0]}: {message}")
    assert err.count("\n") == 1
    assert run_json(*command, code=2)["error"]["message"].startswith(message)


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["check", "--schema", "an integer"], "a schema on the command line must begin with {"),
        (["check", "--regex", "a", "--instance", "the text"], "--text takes the text itself"),
        (["explain", "--regex", "a", "--prefix-file", "the text"], "--prefix takes the text itself"),
        (["generate", "--batch", "Who was\nAda?"], "give a single prompt without --batch"),
    ],
)
def test_a_text_in_the_place_of_a_file(command, advice):
    code, _, err = run(*command)
    assert code == 2
    assert f"cannot read {' '.join(command[-1].split())}: No such file or directory; " in err
    assert err.endswith(f"{advice}\n")


def test_an_empty_schema(tmp_path, monkeypatch):
    (tmp_path / "empty").write_text("\n")
    assert "empty is empty, but must contain a schema" in run("check", "--schema", str(tmp_path / "empty"))[2]
    stdin(monkeypatch, b"")
    assert "standard input is empty" in run("check", "--schema", "-")[2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name of the vocabulary is empty"),
        ("missing.gguf", "there is no file missing.gguf"),
        ("missing/tokenizer.json", "there is no file missing/tokenizer.json"),
        ("a-model", "'a-model' is neither a file nor a known model (smollm2-135m-instruct"),
    ],
)
def test_vocabularies_that_are_not_there(name, message):
    code, _, err = run("explain", "--regex", "a", "--vocabulary", name)
    assert code == 2
    assert err.startswith(f"guided explain: {message}")


@pytest.mark.parametrize(
    ("arguments", "data", "message"),
    [
        ([""], b"", "the prompt is empty"),
        (["-"], b"\n", "standard input is empty, but must contain a prompt"),
        (["-"], b"\xff", "standard input is not UTF-8 text"),
        (["a\udcff"], b"", "the prompt is not UTF-8 text: invalid data at character 1"),
        (["x", "--progress"], b"", "--progress belongs to --batch"),
        (["x", "--output", "y"], b"", "--output belongs to --batch"),
        (["x", "--resume"], b"", "--resume belongs to --batch"),
        (["x", "--threads", "100000"], b"", "argument --threads: 100000 is more than 1024"),
        (["--batch", "-", "-o", ""], b"{}", "the name of the file for --output is empty"),
        (["--batch", "-", "-o", "nowhere/x"], b"{}", "there is no directory nowhere for --output nowhere/x"),
        (["--batch", "-", "-o", "."], b"{}", "--output . is a directory"),
        (["x", "--stop", "a", "--choice", "b"], b"", "OptionError: a constraint determines where its output ends"),
    ],
)
@pytest.mark.usefixtures("with_engine")
def test_prompts_and_outputs_that_cannot_be(tmp_path, monkeypatch, arguments, data, message):
    monkeypatch.chdir(tmp_path)
    stdin(monkeypatch, data)
    code, out, err = run("generate", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"guided generate: {message}")


@pytest.mark.parametrize("line", ["What is it?", '[{"prompt": "x"}]', '"x"', '{"prompt": "x",'])
@pytest.mark.usefixtures("with_engine")
def test_a_file_that_holds_no_requests(monkeypatch, line):
    stdin(monkeypatch, line.encode())
    code, out, err = run("generate", "--batch", "-")
    assert code == 1
    assert json.loads(out)["error"]["hint"] == 'each line holds one request, a JSON object such as {"prompt": "..."}'
    assert err.startswith("standard input, line 1: ")


@pytest.mark.usefixtures("with_engine")
def test_the_reason_for_a_cut_output():
    assert "cut off after 3 tokens: raise --max-tokens" in run("generate", "x", "--max-tokens", "3")[2]
    err = run("generate", "x", "--max-tokens", "999999", "--temperature", "1", "--ignore-eos")[2]
    assert re.search(r"cut off after 3\d\d tokens, because the model's context is full", err)


# ---- errors


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_of_the_arguments_is_one_line_and_where_to_look(command):
    for wrong in (
        ["--frobnicate"],
        ["--regex"],
        ["--regex", "a", "--schema", "{}"],
        ["--indent", "x"],
        ["a", "b", "c"],
    ):
        code, out, err = run(command, *wrong)
        assert (code, out) == (2, "")
        first, *rest = err.splitlines()
        assert first.startswith(f"guided {command}: ")
        assert rest == [f"  see guided {command} --help"]
        code, out, err = run(command, *wrong, "--json")
        assert (code, err) == (2, "")
        assert json.loads(out)["error"]["type"] == "UsageError"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chekc"], "unknown command 'chekc'; did you mean check?"),
        (["help"], "unknown command 'help'; did you mean --help?"),
        (["--verison"], "unknown option --verison; did you mean --version?"),
        (["--indent"], "--indent goes after the command, as in guided check --indent"),
        (["--quiet", "check", "--regex", "a"], "--quiet goes after the command, as in guided check --quiet"),
        (["check", "--regex", "a", "--regex=b"], "--regex is given twice"),
        (["generate", "x", "--seed", "1", "--seed", "2"], "--seed is given twice"),
    ],
)
def test_suggestions_for_misspelled_options(arguments, message):
    assert message in run(*arguments)[2].splitlines()[0]


def test_options_that_may_be_repeated():
    assert run("check", "--regex", "a|b", "--text", "a", "--text", "b")[0] == 0
    assert run("check", "--quiet", "--quiet", "--regex", "a", "--text", "--", "--text")[0] == 2


ERRORS = [
    ("InputError", 2, InputError("bad")),
    ("FileNotFoundError", 2, FileNotFoundError(2, "No such file or directory", "x/y")),
    ("MemoryError", 2, MemoryError()),
    ("KeyboardInterrupt", 130, KeyboardInterrupt()),
    ("ZeroDivisionError", 3, ZeroDivisionError("division by zero")),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("kind", "code", "error"), ERRORS, ids=[kind for kind, _, _ in ERRORS])
def test_every_error_of_every_command_is_json_with_json(monkeypatch, command, kind, code, error):
    def fail(arguments):
        raise error

    modules = (generate, check, explain, sample, lint, bench, verify)
    module = next(module for module in modules if command == module.NAME)
    monkeypatch.setattr(module, "run", fail)
    given = [*SPECIFIED[command], "--regex", "a"]
    for quiet in ([], ["--quiet"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out := io.StringIO())
            patch.setattr(sys, "stderr", err := io.StringIO())
            from guided.cli import main

            assert main([*given, *quiet, "--json"]) == code
            assert json.loads(out.getvalue())["error"]["type"] == kind
            assert json.loads(out.getvalue())["error"]["message"]
            assert err.getvalue() == "" or code == 3
            err.truncate(0)
            assert main([*given, *quiet]) == code
        if code == 130:
            assert err.getvalue() == ""
        else:
            last = err.getvalue().splitlines()[-1]
            assert last.startswith(f"guided {command}: ")
            assert ("report it" in last and "Traceback" in err.getvalue()) == (code == 3)
    assert "x/y: No such file or directory" in err.getvalue() or kind != "FileNotFoundError"


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = run("generate", "x")
    assert (code, out) == (2, "")
    assert err == "guided generate: generating needs PyTorch: pip install 'guided-decoding[engine]'\n"
    assert "PyTorch" in run_json("generate", "x", code=2)["error"]["message"]


def test_an_interrupt_while_a_command_runs():
    code = """
import os, signal, sys, time
from guided.cli import main, sample
def stopped(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sample.draw_sentence = stopped
sys.exit(main(["sample", "--regex", "a", "--json"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
    assert json.loads(done.stdout) == {"error": {"type": "KeyboardInterrupt", "message": "interrupted"}}


# ---- quiet


NOTED = ["--schema", '{"requierd": ["a"], "enum": [1, 2]}']


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("with_engine")
def test_quiet_still_prints_errors(monkeypatch, command):
    given = [*SPECIFIED[command], *NOTED]
    assert "did you mean 'required'?" in run(*given)[2]
    monkeypatch.setattr(console, "_PROGRESS_DELAY_SECONDS", 0.0)
    for more in ([], ["--json"]):
        loud, silent = run(*given, *more), run(*given, *more, "--quiet")
        assert silent[0] == loud[0] == 0
        assert silent[2] == ""
    code, _, err = run(*given, "--regex", "a", "--quiet")
    assert code == 2
    assert err
    code, _, err = run(*SPECIFIED[command], "--regex", "(", "--quiet")
    assert code == 2
    assert err.startswith(f"guided {command}: SpecError: ")


@pytest.mark.usefixtures("with_engine")
def test_quiet_batches_print_only_errors(tmp_path):
    path = tmp_path / "batch"
    path.write_text(
        '{"prompt": "a", "max_tokens": 3}\nno json\n{"prompt": "a", "regex": "("}\n{"prompt": "b", "n": 0}\n'
    )
    code, out, err = run("generate", "--batch", str(path), "--quiet", "--progress")
    assert code == 1
    assert len(out.splitlines()) == 4
    said = [line for line in err.splitlines() if line.startswith(str(path))]
    assert [line.split(": ")[0] for line in said] == [f"{path}, line {n}" for n in (2, 3, 4)]
    assert "tokens/s" not in err


@pytest.mark.usefixtures("with_engine")
def test_progress_of_a_batch_is_shown_on_terminals_or_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr("guided.engine.progress._QUIET_SECONDS", 0.0)
    path = tmp_path / "batch"
    path.write_text('{"prompt": "a", "max_tokens": 3}\n' * 3)
    assert "tokens/s" not in run("generate", "--batch", str(path))[2]
    err = run("generate", "--batch", str(path), "--progress")[2]
    assert "| 3 of 3 requests, 9 tokens in " in err
    assert err.endswith("\n")
    monkeypatch.setattr(io, "StringIO", Terminal)
    assert "| 3 of 3 requests, 9 tokens in " in run("generate", "--batch", str(path))[2]
    assert run("generate", "--batch", str(path), "--quiet")[2] == ""


# ---- help


def examples(command: str) -> list[str]:
    """The command lines that --help shows."""
    text = run(command, "--help")[1] if command else run("--help")[1]
    block = text.split("\nexamples:\n")[1].split("\n\n")[0]
    out: list[str] = []
    for line in block.splitlines():
        if line.startswith("  guided "):
            out.append(line.strip())
        else:
            out[-1] += "\n" + line
    return out


ORDER = {
    "type": "object",
    "properties": {"number": {"type": "integer", "maximum": 99}},
    "required": ["number"],
    "additionalProperties": False,
}
EXIT_CODES = {
    r"guided check --regex '(\w+) \1'": 1,
    "guided check --schema s.json --numbers plain --text 1e3": 1,
    """guided explain --schema s.json --prefix '{"name": ' --text 12""": 1,
    "guided explain --regex '[0-9]{4}-[0-9]{2}' --prefix 2025 --text '/'": 1,
    r"guided explain --regex '\d{4}' --prefix 20 --token 284 --vocabulary model.gguf": 1,
    "guided lint --schema order.schema.json --vocabulary model.gguf": 1,
    "guided lint --regex '(a|b)+'": 1,
    "guided verify --schema order.schema.json --vocabulary model.gguf --ids outputs.jsonl": 1,
    r"guided verify --regex '\d{4}-\d\d' --text 2025-1x": 1,
}


@pytest.fixture
def example_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("order.schema.json", "rivers.json", "answer.schema.json"):
        Path(name).write_text(json.dumps(ORDER))
    named = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]}
    Path("s.json").write_text(json.dumps(named))
    for name in ("order.json", "other.json"):
        Path(name).write_text('{"number": 7}\n')
    Path("half.json").write_text('{"name": "A')
    Path("query.lark").write_text('start: "select" NAME ("," NAME)~0..9\nNAME: /[a-z]{1,20}/\n%ignore / +/\n')
    Path("email.txt").write_text("Order number 7, please.\n")
    Path("questions.jsonl").write_text('{"prompt": "Which number?"}\n')
    Path("model.gguf").write_bytes(byte_level_file(**{"llama.vocab_size": 300}))
    Path("tokenizer.json").write_text(json.dumps(byte_level_json()))
    ids = guided.Vocabulary.from_gguf("model.gguf").encode('{"name": "A"}')
    Path("outputs.jsonl").write_text(f"{ids}\n")
    Path("answer.json").write_text('{"name": "A"}\n')
    Path("keys.txt").write_text("secret\n")
    Path("llama3.tiktoken").write_bytes(ranks_file(bytes([byte]) for byte in range(256)))


@pytest.fixture
def ends_at_once(engine, monkeypatch):  # noqa: F811
    """A server that ends immediately instead of answering requests."""

    async def nothing(*_) -> None:
        pass

    monkeypatch.setattr(serve, "load_engine", lambda arguments, *, describe: nullcontext(engine))
    monkeypatch.setattr(serve, "_open_listener", lambda arguments: socket.create_server(("127.0.0.1", 0)))
    monkeypatch.setattr(serve, "_serve", nothing)


@pytest.fixture
def fetches_nothing(monkeypatch):
    monkeypatch.setattr("guided.files.hub.fetch_model", Path)


@pytest.mark.parametrize("command", ["", *COMMANDS, "serve", "models"])
@pytest.mark.usefixtures("with_engine", "ends_at_once", "example_files", "fetches_nothing")
def test_the_examples_of_help_run(monkeypatch, command):
    shown = examples(command)
    assert len(shown) >= 3
    for example in shown:
        words = shlex.split(example, comments=True)
        if "<" in words:
            stdin(monkeypatch, Path(words[-1]).read_bytes())
            words = words[: words.index("<")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code, out, err = run(*words[1:])
        assert code == EXIT_CODES.get(example.partition("  #")[0].rstrip(), 0), (example, out, err)


@pytest.mark.parametrize("command", [*COMMANDS, "serve", "models"])
def test_help_begins_with_the_purpose_of_the_command(command):
    text = run(command, "--help")[1]
    purpose, usage = text.split("\n\n")[:2]
    assert usage.startswith(f"usage: guided {command}")
    assert purpose[0].isupper()
    assert purpose.rstrip().endswith(".")
    assert "exit codes:" in text
    for option in ("--json", "--quiet"):
        assert option in text
