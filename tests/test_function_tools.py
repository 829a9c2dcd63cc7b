"""Callables of every kind as tools: each becomes a tool that can be called, or is refused at once with a hint."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic import Field

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("docstring_parser", reason="docstring_parser is not installed")

import guided
from guided.frontends.python_types.type_schema import type_to_schema
from tests.test_engine_agent import Scripted, call


def tag(key: str, n: int = 3) -> str:
    """Repeat a key.

    Args:
        key: what to repeat.
    """
    return key * n


async def later(key: str) -> str:
    """Give the key later."""
    return key


def pieces(key: str) -> Iterator[str]:
    yield key


async def later_pieces(key: str) -> AsyncIterator[str]:
    yield key


def bounded(n: int = Field(3, ge=1)) -> int:
    return n


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


def unnamed(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


class Store:
    """A store."""

    def get(self, key: str) -> str:
        """Get a value."""
        return key

    async def get_later(self, key: str) -> str:
        return key

    @staticmethod
    def shared(key: str) -> str:
        return key

    @classmethod
    def of_class(cls, key: str) -> str:
        return key

    @functools.lru_cache  # noqa: B019
    def cached(self, key: str) -> str:
        return key

    @functools.singledispatchmethod
    def dispatched(self, key: str) -> str:
        return key

    @staticmethod
    def classify(cls):
        return cls

    @staticmethod
    def classify_text(cls: str) -> str:
        return cls

    again = functools.partialmethod(get)

    @property
    def size(self) -> int:
        return 1

    def __call__(self, key: str) -> str:
        return key


def classify(cls):
    """Name a class."""
    return cls


def nested() -> Any:
    def classify_nested(self):
        return self

    return classify_nested


class Classifier:
    def __call__(self, cls):
        return cls


class Unknown:
    __signature__ = "none"

    def __call__(self, key: str) -> str:
        return key


class Connection:
    """A class without a JSON form."""


def query(connection: Connection, key: str) -> str:
    """Look a key up."""
    assert isinstance(connection, Connection)
    return key


@pytest.mark.parametrize(
    ("function", "parameters", "description"),
    [
        (tag, ["key", "n"], "Repeat a key."),
        (logged(tag), ["key", "n"], "Repeat a key."),
        (functools.cache(Store.shared), ["key"], ""),
        (functools.singledispatch(Store.shared), ["key"], ""),
        (Store().get, ["key"], "Get a value."),
        (Store().again, ["key"], "Get a value."),
        (Store.classify_text, ["cls"], ""),
        (classify, ["cls"], "Name a class."),
        (logged(classify), ["cls"], "Name a class."),
        (functools.partial(classify), ["cls"], "Name a class."),
        (nested(), ["self"], ""),
        (Classifier(), ["cls"], ""),
        (Store().cached, ["key"], ""),
        (Store.shared, ["key"], ""),
        (Store.__dict__["shared"], ["key"], ""),
        (Store.of_class, ["key"], ""),
        (Store(), ["key"], ""),
        (functools.partial(tag), ["key", "n"], "Repeat a key."),
        (functools.partial(tag, n=2), ["key"], "Repeat a key."),
        (functools.partial(tag, "x"), ["n"], "Repeat a key."),
        (functools.partial(functools.partial(tag, n=2), "x"), [], "Repeat a key."),
        (functools.partial(query, Connection()), ["key"], "Look a key up."),
        (functools.partial(query, connection=Connection()), ["key"], "Look a key up."),
        (functools.partial(Store.get, Store()), ["key"], "Get a value."),
        (lambda key: key, ["key"], ""),
        (len, ["obj"], "Return the number of items in a container."),
        ("ab".upper, [], "Return a copy of the string converted to uppercase."),
    ],
)
def test_callables_that_a_model_can_call(function: Any, parameters: list[str], description: str):
    tool = guided.function_tool(function, name="tool")
    assert (list(tool.parameters["properties"]), tool.description) == (parameters, description)
    arguments = {name: 2 if name == "n" else "ab" for name in parameters}
    bound = tool.arguments(json.dumps(arguments))
    expected = function(*bound.args, **bound.kwargs)
    result = Scripted(call("tool", arguments), "ok").chat("?", tools=[tool])
    assert result.tool_calls[0].error is None and result.tool_calls[0].value == expected


@pytest.mark.parametrize("function", [later, logged(later), Store().get_later, functools.partial(later)])
def test_coroutine_functions_need_an_event_loop(function: Any):
    tool = guided.function_tool(function, name="tool")
    with pytest.raises(guided.OptionError, match=r"tool (is a coroutine function|returned an awaitable): call achat"):
        Scripted(call("tool", {"key": "a"}), "ok").chat("?", tools=[tool])
    result = asyncio.run(Scripted(call("tool", {"key": "a"}), "ok").achat("?", tools=[tool]))
    assert result.tool_calls[0].value == "a"


class Pieces:
    def __call__(self, key: str) -> Iterator[str]:
        yield key


class LaterPieces:
    async def __call__(self, key: str) -> AsyncIterator[str]:
        yield key


@pytest.mark.parametrize(
    "function",
    [
        Pieces(),
        LaterPieces(),
        functools.partial(Pieces()),
        functools.partial(LaterPieces()),
        logged(pieces),
        lambda key: map(str, key),
        lambda key: iter([key]),
    ],
)
def test_iterators_are_not_results(function: Any):
    tool = guided.function_tool(function, name="tool")
    message = r"tool returned a (generator|async_generator|map|list_iterator), which is not a result: return a list"
    with pytest.raises(guided.OptionError, match=message) as caught:
        Scripted(call("tool", {"key": "a"}), "ok").chat("?", tools=[tool])
    assert caught.value.option == "tools"
    with pytest.raises(guided.OptionError, match=message):
        asyncio.run(Scripted(call("tool", {"key": "a"}), "ok").achat("?", tools=[tool]))


@pytest.mark.parametrize(
    ("function", "name", "message", "hint"),
    [
        (Store.get, None, "signature of get begins with self, as for an unbound method", "pass a bound method"),
        (Store.get_later, None, "as for an unbound method", "pass a bound method"),
        (Store.cached, None, "as for an unbound method", "pass a bound method"),
        (Store.again, "tool", "as for an unbound method", "pass a bound method"),
        (Store().dispatched, None, "signature of dispatched begins with self", "wrap it in a function"),
        (Store.classify, None, "signature of classify begins with cls", "or annotate cls if it is an ordinary param"),
        (str.upper, None, "as for an unbound method", "pass a bound method"),
        (functools.partial(Store.get), "tool", "as for an unbound method", "pass a bound method"),
        (Store.__dict__["of_class"], None, "is not a function that a model can call", "take it from the class"),
        (Store.__dict__["size"], None, "is not a function that a model can call", "take it from the class"),
        (Store, None, "is not a function that a model can call", "pass a function with type hints"),
        (functools.partial(Store), "tool", "is not a function that a model can call", "pass a function"),
        (int, None, "is not a function that a model can call", "pass a function with type hints"),
        (3, None, "3 is not a function that a model can call", "pass a function with type hints"),
        (None, None, "None is not a function that a model can call", "pass a function with type hints"),
        (Store(), None, "has no valid tool name", "guided.function_tool(function, name=...)"),
        (lambda key: key, None, "has no valid tool name", "guided.function_tool(function, name=...)"),
        (tag, "a b", "the name 'a b' is not a valid function name", "1 to 64 ASCII letters"),
        (tag, "", "the name '' is not a valid function name", "1 to 64 ASCII letters"),
        (tag, 3, "the name 3 is not a valid function name", "1 to 64 ASCII letters"),
        (functools.partial(tag), None, "has no valid tool name", "guided.function_tool(function, name=...)"),
        (unnamed(tag), None, "variadic parameters such as", "names all of its parameters"),
        (print, None, "variadic parameters such as *args are not supported", "names all of its parameters"),
        (Unknown(), "tool", "has no signature", "wrap it in a function with type hints"),
        (pieces, None, "pieces is a generator function", "return a list"),
        (later_pieces, None, "later_pieces is a generator function", "return a list"),
        (query, None, "Connection", ""),
        (bounded, None, "n has a pydantic Field as its default", "write n: Annotated[..., Field(...)] = ..."),
    ],
)
def test_callables_that_are_refused(function: Any, name: str | None, message: str, hint: str):
    with pytest.raises((guided.SpecError, guided.UnsupportedError)) as caught:
        guided.function_tool(function, name=name)
    assert message in str(caught.value) and hint in caught.value.hint
    if name is None:
        with pytest.raises(type(caught.value)) as again:
            Scripted("x").chat("?", tools=[function])
        assert str(again.value) == str(caught.value)


def test_a_partial_as_a_constraint():
    assert list(type_to_schema(functools.partial(tag, n=2))["properties"]) == ["key"]
    with pytest.raises(guided.SpecError):
        guided.function_tool(functools.partial(tag, n=2), name="tool").arguments('{"key": "a", "n": 3}')
