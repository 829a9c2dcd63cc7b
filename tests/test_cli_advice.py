"""Hints on the command line mention its options, files by their names, control tokens, and modules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from guided.cli.kinds import OPTIONS_OF, as_flags
from tests.test_cli import run, run_json


def test_advice_is_written_as_flags():
    assert as_flags("or pass unknown_format='ignore'") == "or pass --unknown-format ignore"
    assert as_flags("the member format='x' stands") == "the member --format x stands"
    assert "--unknown-format ignore" in run("check", "--schema", '{"format": "color"}')[1]
    assert "use --dialect ecma" in run("check", "--regex", r"\p{L}")[2]
    assert "unknown_format='ignore'" in json.dumps(run_json("check", "--schema", '{"format": "color"}'))


def test_every_argument_of_a_specification_is_advised_as_its_flag():
    shown = run("check", "--help")[1]
    for name in {name for names in OPTIONS_OF.values() for name in names}:
        for value in ("True", "False") if name == "additional_properties" else ("'x'",):
            advice = as_flags(f"give {name}={value}, or not")
            assert re.fullmatch(r"give --[a-z-]+( x| FILE)?, or not", advice), advice
            assert f"  {advice.split()[1].rstrip(',')}" in shown, advice


def test_hints_speak_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("g.lark").write_text("start: x\n%import .nowhere.x\n")
    Path("given.json").write_text('{"word": "start: \\"w\\"", "value": {"const": 1}}')
    for arguments, hint in (
        (["--lark", 'stat: "a"'], "did you mean --start stat?"),
        (["--lark", 'begin: "a"'], "--start names the start rule; the rules are begin"),
        (["--gbnf", 'x ::= "a"'], "--root names"),
        (["--lark", "g.lark"], "in the folder of the file for --lark"),
        (["--lark", "start: x\n%import nowhere.x"], "in the folder of the file for --lark"),
        (["--lark", "start: @word"], "pass --grammars FILE"),
        (["--lark", "start: A\n%declare A"], "define it"),
        (["--lark", "start: _INDENT\n%declare _INDENT"], "pass --postlex python or"),
        (["--lark", "start: <[5]>"], "--allow-special-tokens allows"),
        (["--lark", "start: %json {}", "--semantics", "lexer"], "use --semantics scannerless"),
    ):
        told = "".join(run("check", *arguments)[1:])
        assert hint in told and not re.search(r"\b[a-z_]+=(?! \^)", told.split("hint:")[1]), told
    assert run("check", "--lark", "start: @word @value", "--grammars", "given.json", "--text", "w1")[0] == 0
    assert "belongs to --lark" in run("check", "--regex", "a", "--grammars", "given.json")[2]


def test_an_error_in_an_imported_file_names_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("main.lark").write_text("start: x\n%import .other.x\n")
    Path("other.lark").write_text("\nx: y\n")
    told = run("check", "--lark", "main.lark")[2]
    assert f"({Path('other.lark').resolve()}, line 2, column 4)\n    x: y\n       ^\n" in told
    error = run_json("check", "--lark", "main.lark", code=2)["error"]
    assert (error["file"], error["span"]) == (str(Path("other.lark").resolve()), [4, 5])


def test_the_shortest_output_names_control_tokens():
    named = ["--lark", 'start: <[5]> "a"', "--allow-special-tokens", "--text", "a"]
    code, out, _ = run("check", *named)
    assert code == 1
    assert out.startswith("compiles; the shortest output is '<[5]>a', where <[5]> is a control token and not text\n")
    assert "not allowed here; expected <[5]>" in out
    got = run_json("check", *named, code=1)
    assert (got["shortest"], got["control_tokens"]) == ("<[5]>a", ["<[5]>"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("typed", "", "typed is not of the form MODULE:NAME"),
        ("..:A", "", "..:A is not of the form MODULE:NAME"),
        ("typed_missing:A", "", "typed_missing:A: No module named"),
        ("typed_empty:A", "", "typed_empty:A: module 'typed_empty' has no attribute 'A'"),
        ("typed_raising:A", "\n1 / 0", "typed_raising cannot be imported: ZeroDivisionError: division by zero ("),
        (
            "typed_wrong:A",
            "class",
            "typed_wrong cannot be imported: SyntaxError: invalid syntax (typed_wrong.py, line 1)\n",
        ),
    ],
)
def test_types_that_cannot_be_imported(tmp_path, monkeypatch, name, text, message):
    monkeypatch.chdir(tmp_path)
    module = name.partition(":")[0]
    if module.isidentifier() and module != "typed_missing":
        (tmp_path / f"{module}.py").write_text(text)
    code, out, err = run("check", "--type", name)
    assert (code, out) == (2, "") and err.startswith("guided check: --type ") and message in err
    assert ("line 2)" in err) == (module == "typed_raising")
