"""The cyclic garbage collector pauses during compilations, and then has its earlier state."""

import gc
import threading
from collections.abc import Iterator

import pytest

from guided import GrammarCompiler, SpecError, Vocabulary
from guided.matching import compiler as compilers
from guided.matching.gc_pause import gc_paused

WORDS = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


@pytest.fixture(params=[True, False], ids=["on", "off"])
def was_on(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_compiling_pauses_it(was_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    read = compilers.choice_to_grammar

    def watched(*given, **named):
        seen.append(gc.isenabled())
        return read(*given, **named)

    monkeypatch.setattr(compilers, "choice_to_grammar", watched)
    GrammarCompiler(WORDS).compile_choice(["a", "b"])
    assert seen == [False] and gc.isenabled() is was_on
    with pytest.raises(SpecError):
        GrammarCompiler(WORDS).compile_choice([])
    assert gc.isenabled() is was_on


def test_unhashable_specifications_compile(was_on: bool) -> None:
    given = [("DIGIT", "+")]
    assert GrammarCompiler(WORDS).compile_pattern(given).source == given
    with pytest.raises(SpecError):
        GrammarCompiler(WORDS).compile_choice([["no", "text"]])
    assert gc.isenabled() is was_on


def test_pauses_overlap(was_on: bool) -> None:
    inside, out = threading.Event(), threading.Event()

    def other() -> None:
        with gc_paused():
            inside.set()
            out.wait(10)

    thread = threading.Thread(target=other)
    with gc_paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    out.set()
    thread.join()
    assert gc.isenabled() is was_on


def test_pauses_that_never_end_are_interrupted(was_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = []
    monkeypatch.setattr("guided.matching.gc_pause._MAX_SECONDS", -1.0)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    with gc_paused():
        with gc_paused():
            pass
        assert len(collected) == was_on and not gc.isenabled()
    assert gc.isenabled() is was_on
