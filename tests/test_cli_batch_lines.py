"""`guided generate --batch`: the fields of a line that determine its specification."""

from __future__ import annotations

import json
import re

from tests.test_cli_batch import batch, engine, with_engine  # noqa: F401 (fixtures)


def test_how_a_line_is_written(tmp_path):
    """The options of `compile_json_schema` and `compile_regex`."""
    point = {"type": "object", "properties": {"x": {"enum": [1]}}, "required": ["x"]}
    lines = [
        {"prompt": "a", "schema": point},
        {"prompt": "a", "schema": point, "separators": [",", ":"], "additional_properties": True, "max_string": 2},
        {"prompt": "a", "schema": {"$ref": "http://t/point"}, "registry": {"http://t/point": point}, "indent": 1},
        {"prompt": "a", "regex": "^b|c$", "dialect": "ecma", "search": True, "max_tokens": 30},
        {"prompt": "a", "regex": "b", "strict": True},
        {"prompt": "a", "schema": point, "search": True},
        {"prompt": "a", "schema": point, "numbers": 1},
    ]
    answers, _ = batch(tmp_path, lines, "--seed", "1", code=1)
    assert answers[0]["text"] == '{"x": 1}'
    assert answers[1]["text"].startswith('{"x":1')
    assert answers[2]["text"] == '{\n "x": 1\n}'
    assert re.search("^b|c$", answers[3]["text"])
    messages = [answer["error"]["message"] for answer in answers[4:]]
    assert messages == [
        "strict needs a specification of kind schema or structural_tag",
        "search needs a specification of kind regex",
        "numbers must be a string, not 1",
    ]


def test_classes_of_a_line(tmp_path):
    lines = [
        {"prompt": "a", "regex": r"\d{30}"},
        {"prompt": "a", "regex": r"\d{30}", "classes": "full"},
        {"prompt": "a", "choice": ["a"], "classes": "full"},
        {"prompt": "a", "classes": "full"},
        {"prompt": "a", "regex": "a", "classes": "ascii"},
    ]
    answers, _ = batch(tmp_path, lines, "--temperature", "5", "--seed", "1", code=1)
    assert re.fullmatch("[0-9]{30}", answers[0]["text"])
    assert re.fullmatch(r"\d{30}", answers[1]["text"]) and not answers[1]["text"].isascii()
    for answer in answers[2:4]:
        assert answer["error"]["message"] == "classes needs a specification of kind schema or regex or structural_tag"
    assert "classes must be 'full' or 'plain', not 'ascii'" in answers[4]["error"]["message"]


def test_the_specification_of_a_line(tmp_path):
    """The options that the command line has for a single request, under the same names."""
    lark = {"prompt": "a", "lark": 'start: "y"\nother: A "b"\nA: /[ab]+/\n', "max_tokens": 9}
    block = 'start: "a" _NEWLINE _INDENT "b" _NEWLINE _DEDENT\n%declare _INDENT _DEDENT\n_NEWLINE: /(\\n *)+/'
    given = {"prompt": "a", "lark": "start: @word @value", "grammars": {"word": 'start: "w"', "value": {"const": None}}}
    lines = [
        {**lark, "start": "other", "semantics": "scannerless", "temperature": 1, "seed": 1},
        {**lark, "start": "other"},
        {**lark, "start": "othr"},
        given,
        {"prompt": "a", "gbnf": 'root ::= "y"\nlist ::= "n"', "root": "list"},
        {"prompt": "a", "lark": 'start: A B\nA: "aa"\nB: "b"', "lexer": "basic"},
        {"prompt": "a", "lark": block, "postlex": "python", "max_tokens": 20},
        {"prompt": "a", "pattern": [["UPPER", "1"], [":", "1"]]},
        {**lark, "semantics": "lexical"},
        {"prompt": "a", "gbnf": 'root ::= "y"', "start": "root"},
        {"prompt": "a", "lark": 'start: "a"', "root": "start"},
        {**given, "grammars": {"word": 1}},
        {"prompt": "a", "pattern": [["UPPER"]]},
    ]  # fmt: skip
    answers, err = batch(tmp_path, lines, code=1)
    assert re.fullmatch("[ab]+b", answers[0]["text"])
    assert "the rules accept no sequence of terminals" in answers[1]["error"]["message"]
    assert answers[2]["error"]["hint"] == "did you mean start='other'?" and "did you mean --start other?" in err
    assert [answer["text"] for answer in answers[3:6]] == ["wnull", "n", "aab"]
    assert re.fullmatch(r"a[\n ]*\n +b\n[\n ]*", answers[6]["text"])
    assert re.fullmatch("[A-Z]:", answers[7]["text"])
    assert [answer["error"]["message"] for answer in answers[8:]] == [
        "semantics must be 'lexer' or 'scannerless', not 'lexical'",
        "start needs a specification of kind lark",
        "root needs a specification of kind gbnf",
        'grammars must be an object of texts and schemas, not {"word": 1}',
        'pattern must be a list of pairs such as ["UPPER", "+"], not [["UPPER"]]',
    ]


def test_unknown_keys_are_not_confused_with_others(tmp_path):
    names = ["allow_special_tokens", "import_paths", "strt", "roots_of", "model"]
    answers, err = batch(tmp_path, [{"prompt": "a", "lark": "start: <ask>", name: "x"} for name in names], code=1)
    errors = [answer["error"] for answer in answers]
    assert [error["message"] for error in errors] == [f"a request cannot have {name!r}" for name in names]
    assert [error["hint"].partition(";")[0] for error in errors] == [
        "a line may be untrusted",
        "a line has no folder",
        "did you mean 'start'?",
        "",
        "",
    ]
    assert "--allow-special-tokens on the command line allows" in err


def test_control_tokens_need_permission_of_the_command_line(tmp_path):
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "<ask>"}}
    named = [
        {"prompt": "a", "structural_tag": tag},
        {"prompt": "a", "gbnf": "root ::= <ask>"},
        {"prompt": "a", "lark": "start: <ask>"},
    ]
    refused, err = batch(tmp_path, named, code=1)
    assert all("not allow" in json.dumps(answer) for answer in refused)
    assert err.count("--allow-special-tokens") == len(named) and "allow_special_tokens" not in err
    asking, _ = batch(tmp_path, [{**line, "allow_special_tokens": True} for line in named], code=1)
    assert all("allow_special_tokens" in answer["error"]["message"] for answer in asking)
    allowed, _ = batch(tmp_path, named, "--allow-special-tokens")
    assert not any("error" in answer for answer in allowed)


def test_a_number_of_a_line_without_an_id_that_is_the_id_of_another_line(tmp_path):
    lines = [{"prompt": "a", "id": 2}, {"prompt": "a"}, {"prompt": "a"}, {"prompt": "a", "id": 3}]
    answers, err = batch(tmp_path, lines, "--choice", "yes", code=1)
    assert ["error" in answer for answer in answers] == [False, True, False, True]
    message = "the line has no id, so its id is its number, but line 1 has the same id 2"
    assert (
        f"line 2: {message}\nhint: give every line an id, or none\n" in err
    )  # and no caret: there is no place to mark
    assert "line 4: line 3 has the same id 3: it has no id, so its id is its number" in err
    assert '    {"prompt": "a", "id": 3}\n                    ^^^^^^^\nhint: give every line an id, or none' in err
