"""Sets in pydantic models. A set whose items pydantic cannot add is refused, and all others are allowed: pydantic reads
what guided generates.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import random
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import pytest
import typing_extensions
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WrapValidator

from guided import GrammarCompiler, GrammarMatcher, JsonSchemaOptions
from guided.errors import UnsupportedError
from guided.matching.sentences import byte_vocabulary, draw_sentence
from tests.effort import draws

COMPILER = GrammarCompiler(byte_vocabulary())
PLAIN = JsonSchemaOptions.for_generation(max_items=3).non_defaults()


class Model(pydantic.BaseModel):
    x: int


class Frozen(pydantic.BaseModel, frozen=True):
    x: int


class FrozenList(pydantic.BaseModel, frozen=True):
    x: list[int]


class OwnHash(pydantic.BaseModel):
    x: list[int]

    def __hash__(self) -> int:
        return 1


class FrozenRoot(pydantic.RootModel[list[int]], frozen=True):
    pass


class FrozenTree(pydantic.BaseModel, frozen=True):
    children: tuple[FrozenTree, ...]


@dataclasses.dataclass
class Data:
    x: int


@dataclasses.dataclass(frozen=True)
class FrozenData:
    x: int
    y: list[int] = dataclasses.field(default_factory=list, compare=False)
    z: list[int] = dataclasses.field(default_factory=list, hash=False)


@dataclasses.dataclass(frozen=True)
class FrozenDataList:
    x: list[int]


@dataclasses.dataclass(eq=False)
class Identity:
    x: list[int]


@pydantic.dataclasses.dataclass(frozen=True)
class PydanticData:
    x: dict[str, int]


class Pair(NamedTuple):
    a: int
    b: str


class PairOfLists(NamedTuple):
    a: int
    b: list[int]


class Dictionary(typing_extensions.TypedDict):
    x: int


Members = pydantic.create_model("Members", y=(FrozenList, ...), z=(set[FrozenTree], ...))
UNHASHABLE: list[tuple[Any, str]] = [
    (list[int], "list"), (list, "list"), (dict[str, int], "dict"), (set[int], "set"), (Dictionary, "TypedDict"),
    (Sequence[int], "list"), (Mapping[str, int], "dict"), (Model, "Model"),
    (collections.deque[int], "(list|deque)"), (collections.OrderedDict[str, int], "OrderedDict"),
    (collections.defaultdict[str, int], "dict"), (Data, "Data"), (FrozenList, "list"), (FrozenDataList, "list"),
    (PydanticData, "dict"), (PairOfLists, "list"), (FrozenRoot, "list"), (tuple[int, list[int]], "list"),
    (tuple[Any, ...], "Any"), (int | list[int], "list"), (list[int] | None, "list"), (tuple[FrozenList, ...], "list"),
    (Annotated[list[int], Field(max_length=2)], "list"), (pydantic.Json[list[int]], "list"),
    (Annotated[list[int], BeforeValidator(list)], "list"),
    (Annotated[FrozenTree | Model, Field()], "Model"),
]  # fmt: skip
HASHABLE: list[Any] = [
    int, str, None, bool, float, int | str | None, tuple[int, ...], tuple[int, str], frozenset[int], frozenset,
    AbstractSet[str], Frozen, FrozenTree, FrozenData, OwnHash, Identity, Pair, Literal["a", 1], Hashable, Any, object,
    Annotated[list[int], AfterValidator(tuple)], Annotated[int, Field(ge=3)], pydantic.SecretStr, pydantic.UUID4,
    Annotated[list[int], WrapValidator(lambda value, read: tuple(read(value)))], Annotated[str, Field(max_length=2)],
    frozenset[tuple[Frozen, FrozenData | Pair]], Iterable[int], Annotated[Any, Field(description="any")],
]  # fmt: skip
SETS: list[Any] = [set, frozenset, AbstractSet]


def read_error(tp: Any, value: Any) -> str:
    try:
        TypeAdapter(tp).validate_json(json.dumps(value))
    except pydantic.ValidationError as error:
        return error.errors()[0]["type"]
    return ""


@pytest.mark.parametrize(("item", "name"), UNHASHABLE)
def test_sets_of_unhashable_items_are_refused(item: Any, name: str) -> None:
    for container in SETS:
        model = pydantic.create_model("M", f=(container[item], ...), g=(Members | None, None))
        message = f"{name} is not hashable, so a set cannot contain it"
        with pytest.raises(UnsupportedError, match=f"set: {message}") as caught:
            COMPILER.compile_type(model)
        assert str(caught.value.pointer).startswith("/$defs/M/properties/f") and caught.value.hint


@pytest.mark.parametrize("item", [item for item, name in UNHASHABLE if name != "Any" and "Json" not in str(item)])
def test_pydantic_cannot_add_the_refused_items(item: Any) -> None:
    grammar = COMPILER.compile_type(pydantic.create_model("M", f=(list[item], ...)), **PLAIN)
    errors, chance = set(), random.Random(str(item))
    for _ in range(20):
        text = draw_sentence(grammar, chance, 60, any_character=False)
        for value in json.loads(text)["f"]:
            errors.add(read_error(set[item], [value]))
    assert "set_item_not_hashable" in errors


@pytest.mark.parametrize("item", HASHABLE)
def test_sets_of_hashable_items_are_read(item: Any) -> None:
    for container in SETS:
        tp = container[item]
        grammar = COMPILER.compile_type(pydantic.create_model("M", f=(tp, ...)), **PLAIN)
        texts = [draw_sentence(grammar, random.Random(seed), 90, any_character=False) for seed in range(draws(50))]
        assert any(json.loads(text)["f"] for text in texts)
        for text in texts:
            assert read_error(tp, json.loads(text)["f"]) == ""


@pytest.mark.parametrize("tp", [*SETS, *(container[item] for container in SETS for item in (Any, object, Hashable))])
def test_sets_of_any_values_contain_scalars(tp: Any) -> None:
    start = GrammarMatcher(COMPILER.compile_type(pydantic.create_model("M", f=(tp, ...))))
    values = [1, "a", None, True, 1.5, [], {}, [1], {"a": 1}, [[]]]
    for value in [*([value] for value in values), *map(list, itertools.permutations(values, 2))]:
        matcher = start.fork()
        is_allowed = matcher.accept_string(json.dumps({"f": value})) and matcher.is_accepting()
        assert is_allowed == (read_error(tp, value) == "")


def test_the_refusal_of_bare_types_is_the_same() -> None:
    for tp in (set[list[int]], pydantic.create_model("M", f=(set[list[int]], ...))):
        with pytest.raises(UnsupportedError, match=re.escape("is not hashable, so a set cannot contain it")) as caught:
            COMPILER.compile_type(tp)
        assert (
            caught.value.hint
            == "a set can contain tuples, frozensets and frozen dataclasses; otherwise write list[...]"
        )
