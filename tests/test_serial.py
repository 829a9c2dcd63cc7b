"""Keys by identity: serial numbers and mappings. No cache of the front ends uses an address as a key."""

import ast
import gc
import threading
from pathlib import Path
from typing import get_args

import pytest

import guided
from guided.ir.conditions import Condition
from guided.ir.nodes import EMPTY, Chars, Node, Seq, Text
from guided.ir.ranges import charset
from guided.ir.serial import ByIdentity, Numbered, serial

PACKAGE = Path(guided.__file__).parent


def test_each_object_keeps_its_own_number() -> None:
    nodes = [Text("a"), Text("a"), Seq(()), EMPTY, Chars(charset([(65, 70)]))]
    numbers = [serial(node) for node in nodes]
    assert len(set(numbers)) == len(nodes)
    assert [serial(node) for node in nodes] == numbers


def test_a_number_is_not_used_again_where_an_address_is() -> None:
    numbers, addresses = set(), set()
    for _ in range(1000):
        node = Text("a")
        numbers.add(serial(node))
        addresses.add(id(node))
        del node
    assert len(numbers) == 1000
    assert len(addresses) < 1000  # otherwise this test shows nothing


def test_serial_numbers_do_not_affect_equality() -> None:
    one, other = Seq((Text("a"),)), Seq((Text("a"),))
    serial(one)
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    with pytest.raises(AttributeError):
        one.items = ()  # type: ignore[misc]


def test_threads_never_share_a_number_between_objects() -> None:
    nodes = [Text(str(at)) for at in range(2000)]
    found: list[dict[int, int]] = [{} for _ in range(4)]

    def ask(mine: dict[int, int]) -> None:
        for at, node in enumerate(nodes):
            mine[serial(node)] = at

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meaning: dict[int, int] = {}
    for mine in found:
        for number, at in mine.items():
            assert meaning.setdefault(number, at) == at


def test_a_mapping_by_identity_distinguishes_equal_objects_and_keeps_them_alive() -> None:
    known: ByIdentity[list[int], str] = ByIdentity()
    one, other = [1], [1]
    known[one], known[other] = "one", "other"
    assert (known[one], known[other], len(known)) == ("one", "other", 2)
    assert one in known
    assert [1] not in known
    assert known.get([1]) is None
    assert known.get([1], "none") == "none"
    del one, other
    gc.collect()
    assert all([1] not in known for _ in range(100))  # their addresses are still in use


def test_no_key_of_a_front_end_is_an_address() -> None:
    files = [*PACKAGE.glob("frontends/**/*.py"), *PACKAGE.glob("ir/*.py"), PACKAGE / "automaton" / "build.py"]
    assert len(files) > 80
    calls = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)  # not a field of this name
            if is_read and node.id == "id" and file.name != "serial.py":
                calls.append(f"{file.relative_to(PACKAGE)}:{node.lineno}")
    assert calls == []


def test_every_node_carries_a_number() -> None:
    assert all(issubclass(kind, Numbered) for kind in (*get_args(Node), *get_args(Condition)))
