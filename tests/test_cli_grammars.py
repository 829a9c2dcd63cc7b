"""Grammars on the command line: llama.cpp's, Lark's, and the built-in ones."""

import re

from tests.test_cli import run, run_json


def test_grammars_of_llama_cpp(tmp_path):
    text = 'root ::= item+\nitem ::= "- " [a-z]+ "\\n"\n'
    path = tmp_path / "list.gbnf"
    path.write_text(text)
    for source in (text, str(path)):
        assert "compiles; the shortest text is '- a" in run("check", "--gbnf", source)[1]
        assert run("check", "--gbnf", source, "--root", "item", "--text", "- ab\n")[0] == 0
        assert run("check", "--gbnf", source, "--text", "- 1\n")[0] == 1
    for line in run("sample", "--gbnf", 'root ::= "x" [0-9]{3}', "--n", "5", "--seed", "1")[1].splitlines():
        assert re.fullmatch("x[0-9]{3}", line)
    assert "item (line 2)" in run("explain", "--gbnf", text, "--prefix", "- a", "--text", "1")[1]
    assert run_json("bench", "--gbnf", text, "--n", "1", "--max-tokens", "20")["steps"] > 1


def test_grammars_of_lark(tmp_path):
    (tmp_path / "words.lark").write_text("WORD: /[a-z]+/\n")
    text = 'start: "if" WORD | WORD "=" WORD\n%import .words.WORD\n%ignore " "\n'
    path = tmp_path / "rules.lark"
    path.write_text(text)
    assert run("check", "--lark", str(path), "--text", "if a")[0] == 0
    assert run("check", "--lark", str(path), "--text", "ifa")[0] == 1  # one word, with any first letter
    assert run("check", "--lark", str(path), "--semantics", "scannerless", "--text", "ifa")[0] == 0
    own = 'begin: "x" digits\ndigits: /[0-9]{3}/'
    for line in run("sample", "--lark", own, "--start", "begin", "--n", "5", "--seed", "1")[1].splitlines():
        assert re.fullmatch("x[0-9]{3}", line)
    told = run("explain", "--lark", own, "--start", "begin", "--prefix", "x1", "--text", "a")[1]
    assert 'in begin (line 1), after "x"' in told


def test_grammars_that_come_with_guided():
    assert run("check", "--grammar", "url", "--text", "https://a.b/c?d")[0] == 0
    assert run("check", "--grammar", "json", "--text", "{a: 1}")[0] == 1
    assert "did you mean 'json'?" in run("check", "--grammar", "jsn")[2]
    code, out, _ = run("generate", "--list-grammars")
    assert code == 0 and "json          JSON texts, RFC 8259\n" in out and "pgn" in out
