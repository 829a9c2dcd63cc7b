"""`guided verify`: verdicts, places and exit codes; its verdicts against `re`."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.test_cli import run, run_json

PERSON = json.dumps(
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "maximum": 99}}}
)


def ids_file(tmp_path, *lines: object) -> str:
    path = tmp_path / "outputs.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(path)


@examples(40)
@given(st.text("0123x-", max_size=8))
def test_verdicts_match_re(text):
    """A text is allowed if it is the beginning of a match, and complete if it is a match."""
    match = re.fullmatch(r"\d{4}-\d\d", text)
    starts = re.fullmatch(r"\d{0,4}|\d{4}-\d{0,2}", text)
    got = run_json("verify", "--regex", r"\d{4}-\d\d", f"--text={text}", code=0 if starts else 1)["outputs"][0]
    assert (got["allowed"], got["complete"], got["tokens"]) == (starts is not None, match is not None, len(text))
    if got["refused"]:
        position = got["refused"]["position"]
        assert got["refused"]["token"] == text[position] and got["refused"]["offset"] == position
        assert re.fullmatch(r"\d{0,4}|\d{4}-\d{0,2}", text[:position])


def test_a_refused_token_is_shown_with_its_place_and_reason(tmp_path):
    path = tmp_path / "answer.json"
    path.write_text('{"name": "Ana", "age": 100}\n')
    code, out, err = run("verify", "--schema", PERSON, "--instance", str(path), "--text", '{"name": "Ana", "age": 7}')
    assert (code, err) == (1, "")
    assert out.splitlines()[:3] == [
        f"{path}: token 26 of 27 is not allowed",
        '    {"name": "Ana", "age": 100}',
        "                             ^",
    ]
    assert "position 25, id 48, '0': '0' is not allowed: expected '}'" in out
    assert "refused by /properties/age/maximum" in out
    assert out.endswith("text 1: all 25 tokens are allowed; the output is complete\n")


def test_ids_from_a_file(tmp_path):
    good, early = [*b"ab", 256], list(b"a")
    file = ids_file(tmp_path, good, "", {"tokens": early, "text": "a"}, [97, 98, 99], [97, 300], [])
    got = run_json("verify", "--regex", "ab", "--ids", file, code=1)["outputs"]
    assert [(one["name"], one["allowed"], one["complete"], one["tokens"]) for one in got] == [
        ("line 1", True, True, 3), ("line 3", True, False, 1), ("line 4", False, False, 3),
        ("line 5", False, False, 2), ("line 6", True, False, 0),
    ]  # fmt: skip
    assert got[3]["refused"]["reason"] == "300 is not an id of the vocabulary (0 to 256)"
    _, out, _ = run("verify", "--regex", "ab", "--ids", ids_file(tmp_path, early, [97, 256], [97, 98, 256, 97]))
    assert out.splitlines()[0] == "line 1: the only token is allowed; the output is not complete"
    assert "position 1, id 256, '<[256]>': the output is not complete: expected 'b'" in out
    assert "position 3, id 97, 'a': the output has ended: nothing may follow" in out


def test_results_of_generate_can_be_verified(tmp_path):
    text = run("sample", "--schema", PERSON, "--seed", "3")[1].strip()
    file = ids_file(tmp_path, {"tokens": list(text.encode())})
    assert run("verify", "--schema", PERSON, "--ids", file)[0] == 0
    assert run("verify", "--schema", PERSON, "--ids", file, "--max-tokens", str(len(text)))[0] == 0


def test_reasoning_is_not_verified(tmp_path):
    """The constraint begins after the reasoning, whose tokens still count towards the budget."""
    thought = list(b"Hm?</think>")
    good, bad = ({"tokens": [*thought, *text], "reasoning_tokens": len(thought)} for text in (b"ab", b"ac"))
    file = ids_file(tmp_path, good, bad, {"tokens": list(b"ab"), "reasoning_tokens": 0})
    got = run_json("verify", "--regex", "ab", "--ids", file, code=1)["outputs"]
    assert [(one["allowed"], one["complete"], one["tokens"]) for one in got] == [
        (True, True, 13), (False, False, 13), (True, True, 2)
    ]  # fmt: skip
    assert got[1]["refused"]["position"] == 12 and got[1]["refused"]["token"] == "c"
    assert (got[0]["reasoning_tokens"], "reasoning_tokens" in got[2]) == (11, False)
    _, out, _ = run("verify", "--regex", "ab", "--ids", file)
    assert out.splitlines()[0] == (
        "line 1: all 2 tokens are allowed (11 of the reasoning not verified); the output is complete"
    )
    assert out.splitlines()[1] == "line 2: token 13 of 13 is not allowed"
    file = ids_file(tmp_path, good)
    assert run("verify", "--regex", "ab", "--ids", file, "--max-tokens", "13")[0] == 0
    assert run("verify", "--regex", "ab", "--ids", file, "--max-tokens", "12")[0] == 2
    for count in (-1, 14, True, "2"):
        file = ids_file(tmp_path, {**good, "reasoning_tokens": count})
        assert "the line is no output" in run("verify", "--regex", "ab", "--ids", file)[2]


def test_a_budget(tmp_path):
    text = '{"name": "Ana"}'
    assert run("verify", "--schema", PERSON, "--text", text, "--max-tokens", "15")[0] == 0
    code, out, _ = run("verify", "--schema", PERSON, "--text", text, "--max-tokens", "14")
    assert code == 1 and "the budget does not (tokens left after it: 1, shortest known completion: 2)" in out
    code, _, err = run("verify", "--schema", PERSON, "--text", text, "--max-tokens", "1")
    assert code == 2 and "the shortest known completion has 2 tokens, but the budget is 1" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2", "the line is not JSON: expecting ',' delimiter (FILE, line 2, column 6)"),
        ("{'tokens': [1]}", "hint: JSON writes strings and names in double quotes"),
        (
            '{"ids": [1]}',
            'the line is no output (FILE, line 2, column 1)\n    {"ids": [1]}\n    ^^^^^^^^^^^^\nhint: a line',
        ),
        ("[1, true]", "the line is no output"),
        ("[1.0]", "the line is no output"),
        (f"[{2**63}]", "the line is no output"),
        (f"[{'1' * 5000}]", "an integer in the line has more than 4,300 digits (FILE, line 2, column 1)"),
        ('"ab"', "the line is no output"),
        ('{"results": []}', "the line is no output"),
        ('{"results": [{"tokens": [97]}, {"text": "a"}]}', "the line is no output"),
        ('[{"tokens": [97]}, [97]]', "the line is no output"),
        ('{"text": "a", "tokens": [97], "forced": false}', "the line is no output"),
        ('{"error": "no"}', "the line is no output"),
        ("[" * 100_000, "the line has more nested arrays and objects than Python reads (FILE, line 2, column 1)"),
        (
            '{"tokens": [97], "tokens": [98]}',
            "the key 'tokens' is written twice in one object, at /tokens (FILE, line 2, column 18)",
        ),
    ],
)
def test_lines_without_an_output(tmp_path, line, message):
    file = ids_file(tmp_path, [97], line, [97])
    code, out, err = run("verify", "--regex", "ab", "--ids", file)
    assert code == 2 and not out
    assert message.replace("FILE", file) in err


def test_each_line_of_a_batch_is_read(tmp_path):
    """A line holds a result, several results, or an error, which has no output."""
    failure = {"id": "b", "line": 2, "request": "d", "error": {"type": "SpecError", "message": "no such rule"}}
    several = {"id": "c", "line": 3, "request": "e", "results": [{"tokens": [97]}, {"tokens": [98]}]}
    file = ids_file(tmp_path, {"id": "a", "tokens": [97, 98]}, failure, several, [{"tokens": [97, 98]}, {"tokens": []}])
    got = run_json("verify", "--regex", "ab", "--ids", file, code=1)
    assert [(one["name"], one["allowed"]) for one in got["outputs"]] == [
        ("line 1", True), ("line 3, result 1", True), ("line 3, result 2", False),
        ("line 4, result 1", True), ("line 4, result 2", True),
    ]  # fmt: skip
    assert got["failed"] == [{"name": "line 2", "error": failure["error"]}]
    code, out, err = run("verify", "--regex", "ab", "--ids", ids_file(tmp_path, failure, [97, 98]))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "line 2: all 2 tokens are allowed; the output is complete",
        "line 1: the request failed, so there is no output: no such rule",
    ]
    code, out, err = run("verify", "--regex", "ab", "--ids", ids_file(tmp_path, failure, failure))
    assert code == 2 and not out and "contains no outputs; all 2 requests in it failed" in err


def test_bad_input(tmp_path):
    assert "there is no output to verify: give --ids, --text or --instance" in run("verify", "--regex", "a")[2]
    assert "contains no outputs" in run("verify", "--regex", "a", "--ids", ids_file(tmp_path, ""))[2]
    (tmp_path / "r.json").write_text('{"u:a": {"type": "null", "type": "null"}}')
    error = run("verify", "--schema", "{}", "--text", "1", "--registry", str(tmp_path / "r.json"))[2]
    assert f"the key 'type' is written twice in one object, at /u:a/type ({tmp_path / 'r.json'}, line 1" in error
    (tmp_path / "r.json").write_text("{\n  'u:a': {}}")
    error = run("verify", "--schema", "{}", "--text", "1", "--registry", str(tmp_path / "r.json"))[2]
    assert f"the file of --registry is not JSON: expecting property name enclosed in double quotes ({tmp_path}" in error
    assert "line 2, column 3)\n      'u:a': {}}\n      ^\nhint: JSON writes strings and names in double quotes" in error
    assert "cannot read nowhere" in run("verify", "--regex", "a", "--ids", "nowhere")[2]
    assert "text 1 is not UTF-8 text" in run("verify", "--regex", "a", "--text", "\udcff")[2]
    assert "-1 is less than 0" in run("verify", "--regex", "a", "--text", "a", "--max-tokens", "-1")[2]
