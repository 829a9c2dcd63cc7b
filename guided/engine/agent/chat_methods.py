"""`Engine.chat` and its variants: the model answers a conversation, and calls Python functions until it has an answer.

    def weather(city: str) -> str:
        \"\"\"The current weather in a city.\"\"\"

    engine.chat("What is the weather in Oslo?", tools=[weather]).text

In: messages, functions with type hints, and the options of `generate`, which apply to each message that the model
writes. Out: a `ChatResult`, or `ChatEvent`s. turn.py describes the turn. Functions run on the caller's thread, one
after the other; in `achat`, all calls of a message run at once, coroutines on the event loop, other functions on
threads. An exception that a function raises is reported to the model as the result of the call.

`guided.Tool`s, whose calls are segments between control tokens (nanochat), run while the message is written.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any, Final, Protocol, TypeAlias, Unpack, cast, overload

from guided.chat import DEFAULT_TOOL_STYLE, ChatTemplate, Conversation, Message
from guided.chat.conversation import as_style
from guided.engine.agent.events import ChatDone, ChatEvent, ChatResult, FunctionCall
from guided.engine.agent.turn import Turn
from guided.engine.reasoning import reasoning_end_text
from guided.engine.request import FOREIGN_KEYWORDS, Options, RequestOptions
from guided.engine.result import StreamEvent, ValueT_co
from guided.errors import GuidedError, OptionError
from guided.frontends.json_schema.options import JsonSchemaKeywords
from guided.frontends.structural_tag.tool_styles import ToolStyle, tool_style
from guided.frontends.structural_tag.tools import ToolChoice
from guided.keywords import keywords_checked, read_items
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.tools.function import FunctionTool, function_tool
from guided.tools.tool import Tool
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ChatMethods", "ChatOptions"]

_JSON_OPTIONS: Final = JsonSchemaKeywords.__annotations__
_OTHER_OPTIONS: Final = [name for name in ConstraintOptions.__annotations__ if name not in _JSON_OPTIONS]

Messages: TypeAlias = str | Sequence[Message] | Conversation
Callables: TypeAlias = Sequence[Callable[..., Any] | FunctionTool | Tool]


class ChatOptions(RequestOptions, total=False):
    """The options of `Engine.chat`: all of `Options`, which apply to each message, and the following.

    Attributes:
        tool_choice: as in OpenAI's API. "auto" (the default); "none": the model does not see the tools; "required" or
            `{"type": "function", "function": {"name": ...}}`: the first message consists of calls.
        parallel: whether one message may contain several calls. Default True.
        max_rounds: the maximum number of messages with calls. After that, the model is asked for an answer, without the
            tools. Default 8.
        repeats: whether a message may repeat one of its own calls, or all calls of the message before it, for example
            to poll. If not, the functions are not called again, and the model is asked for an answer. Default False.
        tool_style: how the model writes calls: a style, or its name in `guided.TOOL_STYLES`. None: the style of its
            chat template, or `qwen_3` (Hermes) if the template's style is unknown.
    """

    tool_choice: ToolChoice
    parallel: bool
    max_rounds: int
    repeats: bool
    tool_style: str | ToolStyle | None


class _Engine(Protocol):
    """The parts of an engine that the methods use."""

    vocabulary: Vocabulary
    chat_template: ChatTemplate | None

    @property
    def stream(self) -> Callable[..., Iterator[StreamEvent]]: ...
    @property
    def astream(self) -> Callable[..., AsyncGenerator[StreamEvent, None]]: ...


class ChatMethods:
    """See the module docstring."""

    @overload
    def chat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: type[ValueT_co],
        **options: Unpack[ChatOptions],
    ) -> ChatResult[ValueT_co]: ...
    @overload
    def chat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> ChatResult: ...
    @keywords_checked(ChatOptions.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    def chat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> Any:
        """Let the model answer a conversation, and call functions until it has an answer.

        Args:
            messages: a user message as a string, or a sequence of messages.
            tools: functions with type hints, which become the schemas of their arguments. Docstrings tell the model
                what the functions and their parameters are for. Arguments arrive with the types of the parameters.
            constraint: the constraint of the answer, as for `generate`; with tools, a JSON Schema or a type.
            **options: see `ChatOptions` and `Options`.

        Raises:
            SpecError, UnsupportedError, OptionError: a tool or an option cannot be used.
            GuidedError: the model has no chat template, or `generate` raised an error for one of the messages.
        """
        for event in _events(self, messages, tools, constraint, options):
            if isinstance(event, ChatDone):
                return event.result

    @keywords_checked(ChatOptions.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    def stream_chat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> Iterator[ChatEvent]:
        """Like `chat`, but yield events. The last one contains the result. Closing the iterator cancels the turn."""
        return _events(self, messages, tools, constraint, options)

    @overload
    async def achat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: type[ValueT_co],
        **options: Unpack[ChatOptions],
    ) -> ChatResult[ValueT_co]: ...
    @overload
    async def achat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> ChatResult: ...
    @keywords_checked(ChatOptions.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    async def achat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> Any:
        """Like `chat`, without blocking the event loop. Functions may be coroutine functions.

        Cancelling it cancels the request of the current message and the functions that it awaits. A function on a
        thread runs to completion.
        """
        async with aclosing(_async_events(self, messages, tools, constraint, options)) as events:
            async for event in events:
                if isinstance(event, ChatDone):
                    return event.result

    @keywords_checked(ChatOptions.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    def astream_chat(
        self: _Engine,
        messages: Messages,
        tools: Callables = (),
        *,
        constraint: Constraint = None,
        **options: Unpack[ChatOptions],
    ) -> AsyncGenerator[ChatEvent, None]:
        """Like `achat`, but yield events. The last one contains the result. Closing the generator cancels the turn."""
        return _async_events(self, messages, tools, constraint, options)


def _events(
    engine: _Engine, messages: Messages, tools: Callables, constraint: Constraint, options: ChatOptions
) -> Iterator[ChatEvent]:
    turn, request_options = _begin_turn(engine, messages, tools, constraint, options)
    for tool in turn.tools.values():
        if _is_async(tool.function):
            raise OptionError(f"{tool.name} is a coroutine function: call achat or astream_chat", option="tools")
    return _run_turn(engine, turn, request_options)


def _run_turn(engine: _Engine, turn: Turn, options: Options) -> Iterator[ChatEvent]:
    while turn.result is None:
        prompt, constraint, turn_options = turn.request()
        with closing(cast(Any, engine.stream(prompt, constraint, **{**options, **turn_options}))) as events:
            for event in events:
                yield from turn.read(event)
        for call in list(turn.open_calls):
            value = _call_function(turn.tools[call.name], call)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()  # otherwise Python warns that it was never awaited
                message = f"{call.name} returned an awaitable: call achat or astream_chat"
                raise OptionError(message, option="tools")
            _check_result(call, value)
            yield from turn.answer(call, value)


async def _async_events(
    engine: _Engine, messages: Messages, tools: Callables, constraint: Constraint, options: ChatOptions
) -> AsyncGenerator[ChatEvent, None]:
    turn, request_options = _begin_turn(engine, messages, tools, constraint, options)
    while turn.result is None:
        prompt, constraint, turn_options = turn.request()
        async with aclosing(engine.astream(prompt, constraint, **{**request_options, **turn_options})) as events:
            async for event in events:
                for delta in turn.read(event):
                    yield delta
        calls = list(turn.open_calls)
        values = await asyncio.gather(*(_call_function_async(turn.tools[call.name], call) for call in calls))
        for call, value in zip(calls, values, strict=True):
            _check_result(call, value)
            for result in turn.answer(call, value):
                yield result


def _begin_turn(
    engine: _Engine, messages: Messages, tools: Callables, constraint: Constraint, options: ChatOptions
) -> tuple[Turn, Options]:
    """Create the turn and the options of its requests."""
    if engine.chat_template is None:
        raise GuidedError("this model has no chat template, so it cannot hold a conversation: use generate")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    tool_list, given_options = read_items("tools", tools), cast(dict[str, Any], options)
    segment_tools = [tool for tool in tool_list if isinstance(tool, Tool)]
    if segment_tools and len(segment_tools) < len(tool_list):
        message = f"{segment_tools[0].name} is a guided.Tool, which cannot be combined with functions"
        raise OptionError(message, option="tools")
    functions = [
        tool if isinstance(tool, FunctionTool) else function_tool(tool)
        for tool in tool_list
        if not isinstance(tool, Tool)
    ]
    if functions and (unsupported := [name for name in _OTHER_OPTIONS if name in given_options]):
        raise OptionError(f"{unsupported[0]} cannot be combined with tools", option=unsupported[0])
    style = as_style(options.pop("tool_style", None))
    if style is None and isinstance(messages, Conversation):
        style = as_style(messages.tool_style)
    style = style or engine.chat_template.style or tool_style(DEFAULT_TOOL_STYLE)
    reasoning_end = options.get("reasoning_end")
    turn = Turn(
        engine.vocabulary,
        style,
        messages,
        functions,
        constraint,
        tool_choice=options.pop("tool_choice", "auto"),
        parallel=options.pop("parallel", True),
        max_rounds=options.pop("max_rounds", 8),
        repeats=options.pop("repeats", False),
        reasoning_end=reasoning_end_text(engine.vocabulary, reasoning_end) if reasoning_end else "",
        options=cast(
            JsonSchemaKeywords, {name: given_options.pop(name) for name in _JSON_OPTIONS if name in given_options}
        ),
    )
    request_options = cast(Options, options)
    if segment_tools:
        request_options["tools"] = segment_tools
    return turn, request_options


def _call_function(tool: FunctionTool, call: FunctionCall) -> Any:
    """Call the function. Return its value, or the exception that it raises."""
    try:
        arguments = call.arguments = tool.arguments(call.text)
        return tool.function(*arguments.args, **arguments.kwargs)
    except Exception as error:
        return error


async def _call_function_async(tool: FunctionTool, call: FunctionCall) -> Any:
    try:
        if not _is_async(tool.function):
            value = await asyncio.to_thread(_call_function, tool, call)
        else:
            arguments = call.arguments = tool.arguments(call.text)
            value = tool.function(*arguments.args, **arguments.kwargs)
        return await value if inspect.isawaitable(value) else value
    except Exception as error:
        return error


def _check_result(call: FunctionCall, value: Any) -> None:
    """Raise OptionError for a generator or another iterator: its `str` does not contain the items."""
    if isinstance(value, Iterator | AsyncIterator):
        message = (
            f"{call.name} returned a {type(value).__name__}, which is not a result: return a list, or the last value"
        )
        raise OptionError(message, option="tools")


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether a function, or an object with `__call__`, is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
