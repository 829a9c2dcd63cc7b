"""Compiled grammars in a folder: found by content, shared by processes, harmless if files are missing or damaged."""

from __future__ import annotations

import multiprocessing
import os
import stat
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

import guided
from guided import GrammarCompiler, GrammarMatcher, Limits
from guided.cli.console import warnings_as_notes
from guided.matching import cached_compiler
from guided.matching.grammar_folder import FolderWarning, GrammarFolder
from tests.core_support import mask_of, vocabulary

VOCABULARY = vocabulary(20)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The kinds of the grammars that were read from files."""
    found, read = [], cached_compiler.read_compiled

    def counted(*arguments):
        compiled = read(*arguments)
        found.append(compiled.kind)
        return compiled

    monkeypatch.setattr(cached_compiler, "read_compiled", counted)
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.grammar"))


SPECS = {
    "json_schema": lambda compiler: compiler.compile_json_schema(SCHEMA),
    "regex": lambda compiler: compiler.compile_regex("[a-c]+"),
    "gbnf": lambda compiler: compiler.compile_gbnf('root ::= "a"+'),
    "structural_tag": lambda compiler: compiler.compile_structural_tag(
        {"format": {"type": "json_schema", "json_schema": SCHEMA}}
    ),
    "choice": lambda compiler: compiler.compile_choice(["a", "b"]),
    "pattern": lambda compiler: compiler.compile_pattern([("UPPER", "+")]),
}


@pytest.mark.parametrize("kind", SPECS)
def test_grammars_are_read_again(kind, tmp_path, reads):
    compile = SPECS[kind]
    first = compile(GrammarCompiler(VOCABULARY, cache_dir=tmp_path))
    assert not reads and len(files(tmp_path)) == 1
    compiler = GrammarCompiler(VOCABULARY, cache_dir=str(tmp_path))
    second = compile(compiler)
    assert reads == [kind] and compile(compiler) is second
    assert second.kind == kind and second.source == first.source
    assert second.grammar == first.grammar
    assert mask_of(GrammarMatcher(second)) == mask_of(GrammarMatcher(first))
    assert compile(GrammarCompiler(VOCABULARY)).grammar == first.grammar
    assert len(reads) == 1 and len(files(tmp_path)) == 1


def test_lark_and_types(tmp_path, reads):
    pytest.importorskip("lark")
    for _ in range(2):
        compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
        compiler.compile_lark('start: "a" NAME\nNAME: /[b-d]+/')
        grammar = compiler.compile_type(list[int])
        assert (grammar.kind, grammar.source) == ("type", list[int])
        assert grammar.grammar.rules
    assert reads == ["lark", "json_schema"]


def test_everything_that_matters_is_in_the_name(tmp_path, reads):
    def compiled(own=VOCABULARY, limits=None, **options):
        return GrammarCompiler(own, limits=limits, cache_dir=tmp_path).compile_json_schema(SCHEMA, **options)

    other = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    for options in (
        {},
        {"whitespace": "compact"},
        {"limits": Limits(states=5000)},
        {"own": other},
        {"registry": {"x:y": {}}},
    ):
        compiled(**options)
    assert not reads and len(files(tmp_path)) == 5
    compiled(limits=Limits(seconds=1.5, memory=1 << 20))
    assert reads == ["json_schema"]


def test_findings_are_warned_of_again(tmp_path):
    for _ in range(2):
        with pytest.warns(guided.GuidedWarning):
            GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_json_schema({"format": "unknown"})


def test_grammars_that_the_key_does_not_determine_are_not_stored(tmp_path, reads):
    """Composed specifications, schemas that are not JSON, and files that may change."""
    pytest.importorskip("lark")
    from lark.indenter import PythonIndenter

    imported = tmp_path / "imports"
    imported.mkdir()
    (imported / "part.lark").write_text("NAME: /[a-c]+/\n")
    folder = tmp_path / "cache"
    for _ in range(2):
        compiler = GrammarCompiler(VOCABULARY, cache_dir=folder)
        compiler.compile(guided.text("a") | guided.regex("b+"))
        compiler.compile_json_schema({"enum": [1, 2], "default": Decimal(1)})
        compiler.compile_lark("%import .part.NAME\nstart: NAME", import_paths=[imported])
        compiler.compile_lark('start: @x "a"', grammars={"x": guided.regex("b+")})
        compiler.compile_lark(
            "%declare _INDENT _DEDENT\nstart: _NEWLINE _INDENT _DEDENT\n_NEWLINE: /\\n */", postlex=PythonIndenter()
        )
    assert not reads and not files(folder)


@pytest.mark.parametrize("damage", ["cut", "other", "flip", "empty", "folder"])
def test_damaged_files_are_replaced(damage, tmp_path, reads):
    expected = GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("[a-c]+")
    GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("other")
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    name = compiler._file_name(("regex", "[a-c]+", "python", False, "full"), ())
    path = tmp_path / f"{name}.grammar"
    data = path.read_bytes()
    other = next(each for each in files(tmp_path) if each != path).read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-5])
        case "other":  # the stored form of another specification, under this name
            path.write_bytes(other)
        case "flip":
            path.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
        case "empty":
            path.write_bytes(b"")
        case "folder":
            path.unlink()
            path.mkdir()
    reads.clear()
    if damage == "folder":
        with pytest.warns(RuntimeWarning, match="cannot be stored"):
            again = GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("[a-c]+")
    else:
        again = GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("[a-c]+")
        assert path.read_bytes() == data
    assert not reads
    assert mask_of(GrammarMatcher(again)) == mask_of(GrammarMatcher(expected))


def test_a_folder_that_cannot_be_written(tmp_path):
    """There is one warning and no error. It points to the line that chose the folder, also from another thread."""
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path / "folder")
    line = sys._getframe().f_lineno - 1
    (tmp_path / "folder").write_text("not a folder")
    with pytest.warns(FolderWarning, match="cannot be stored in") as warned, ThreadPoolExecutor() as pool:
        assert pool.submit(compiler.compile_regex, "a").result().kind == "regex"
    assert [(each.filename, each.lineno) for each in warned] == [(__file__, line)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiler.compile_regex("b").kind == "regex"


def test_commands_show_the_warning_in_one_line(tmp_path, capsys):
    folder = GrammarFolder(tmp_path / "folder")
    (tmp_path / "folder").write_text("not a folder")
    with warnings_as_notes():
        folder.write("a" * 40, b"data")
    errors = capsys.readouterr().err
    assert errors.startswith("warning: grammars cannot be stored in ") and errors.count("\n") == 1


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path, monkeypatch):
    place = tmp_path / "file"
    place.write_text("not a folder")
    for path in (3, b"bytes", "a\0b", "\ud800", "", place, str(place), place / "below"):
        with pytest.raises(guided.OptionError, match="cache_dir is ") as caught:
            GrammarCompiler(VOCABULARY, cache_dir=path)  # type: ignore[arg-type]
        assert caught.value.option == "cache_dir"
    with pytest.raises(guided.OptionError, match="None means no folder"):
        GrammarCompiler(VOCABULARY, cache_dir="")
    monkeypatch.chdir(tmp_path)
    GrammarCompiler(VOCABULARY, cache_dir="new/folder").compile_regex("a")
    assert len(files(tmp_path / "new" / "folder")) == 1


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_the_umask_determines_who_can_read_a_file(umask, mode, tmp_path):
    previous = os.umask(umask)
    try:
        GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("a")
    finally:
        os.umask(previous)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_files_that_the_user_must_not_read_are_replaced(tmp_path, monkeypatch):
    GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("a")
    (path,) = tmp_path.iterdir()
    number, open_file = path.stat().st_ino, os.open

    def refuse(name, *arguments, **options):
        if Path(name) == path:
            raise PermissionError(13, "Permission denied", str(name))
        return open_file(name, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.warns(FolderWarning, match="cannot be read in .*Permission denied"):
        assert GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_regex("a").kind == "regex"
    assert path.stat().st_ino != number


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path):
    folder = GrammarFolder(tmp_path)
    os.mkfifo(tmp_path / f"{'a' * 40}.grammar")
    assert folder.read("a" * 40) is None
    folder.write("a" * 40, b"data")
    assert folder.read("a" * 40) == b"data"


def test_specifications_without_text_are_compiled_but_not_stored(tmp_path):
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    assert compiler.compile_json_schema({"type": "string"}, max_digits=10**5000).kind == "json_schema"
    assert files(tmp_path) == []


def test_the_least_recently_used_are_removed(tmp_path):
    folder = GrammarFolder(tmp_path, max_bytes=1000)
    names = [f"{number:040x}" for number in range(6)]
    (tmp_path / "mine.txt").write_bytes(bytes(5000))
    old = tmp_path / f"{names[0]}.grammar.abc.tmp"
    old.write_bytes(b"left behind")
    os.utime(old, (1, 1))
    for number, name in enumerate(names):
        folder.write(name, bytes(230))
        os.utime(tmp_path / f"{name}.grammar", (10**9 + number, 10**9 + number))
        if number == 3:
            assert len(folder.read(names[0])) == 230  # the first one is used again
    left = {path.stem for path in files(tmp_path)}
    assert names[0] in left and names[5] in left and names[1] not in left
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 1000
    assert (tmp_path / "mine.txt").exists() and not old.exists()
    folder.write("f" * 40, bytes(2000))
    assert folder.read("f" * 40) is None


def _compile_many(folder: str, seed: int) -> int:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=folder)
    total = 0
    for number in range(31):
        grammar = compiler.compile_regex(f"[a-c]{{{(number * seed) % 31 + 1}}}")
        total += len(mask_of(GrammarMatcher(grammar)))
    return total


def test_several_processes_share_a_folder(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        totals = pool.starmap(_compile_many, [(str(tmp_path), seed) for seed in (1, 2, 3)])
    assert len(set(totals)) == 1
    assert len(files(tmp_path)) == 31
    assert not list(tmp_path.glob("*.tmp"))
    begin = time.time()
    assert _compile_many(str(tmp_path), 5) == totals[0]
    assert max(path.stat().st_mtime for path in files(tmp_path)) >= begin - 1
