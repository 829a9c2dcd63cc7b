"""One turn of a conversation: the model writes messages and calls functions until it answers without a call.

In: a conversation, tools, and how they may be used. Out: the engine's requests, one for each message; deltas; the calls
that the caller must run. `Turn` runs nothing itself, so the same code serves `Engine.chat` and `Engine.achat`:

    while turn.result is None:
        prompt, constraint, options = turn.request()
        for event in engine.stream(prompt, constraint, **options):
            yield from turn.read(event)
        for call in turn.open_calls:
            yield from turn.answer(call, value or exception)

A message is free text that may contain calls, written in the model's style. If a call is required, the message consists
of calls. With a constraint it is either text that satisfies the constraint, or calls. Arguments always satisfy their
schema.

Every turn ends with an answer. After `max_rounds` messages with calls, and after a message that repeats one of its own
calls, or all calls of the message before it, the model is asked for the answer: it sees the conversation before the
turn, and the results of the calls as part of the question. A small model that continued to see tools and calls might
call the tools forever. A repeated call gets the result of the first one, and the function does not run again. With
`repeats`, all calls run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from guided.chat import Conversation, Message
from guided.engine.agent.answer_reader import AnswerReader, Delta
from guided.engine.agent.events import CallResult, ChatDone, ChatResult, FunctionCall
from guided.engine.answer_splitter import AnswerSplitter
from guided.engine.prompts import with_text
from guided.engine.result import Result, StreamEvent
from guided.engine.token_text import AnswerDecoder
from guided.errors import GuidedError, OptionError, SpecError, UnsupportedError, brief
from guided.frontends.combinators import Expr
from guided.frontends.common.quoted_texts import without_document_texts
from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader
from guided.frontends.structural_tag.call_ids import SHORT_IDS, CallIds
from guided.frontends.structural_tag.markup import Markup
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.frontends.structural_tag.tools import ToolChoice, chosen_tools
from guided.keywords import check_integer
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import JSON_VALUE, Constraint, ConstraintCompiler, ValueParser
from guided.tools.function import FunctionTool, result_text
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Turn", "TurnRequest"]

TurnRequest: TypeAlias = tuple[Conversation, Constraint, Mapping[str, Any]]
_RESULTS_HEADING: Final = "These functions have been called for you:"
_ANSWER_REQUEST: Final = "Answer in a sentence or two, with these results. Do not call any function."


class Turn:
    """A turn of a conversation.

    Args:
        vocabulary: the model's tokens.
        style: how the model writes calls.
        messages: the conversation so far.
        tools: the functions that the model may call.
        constraint: the constraint of the answer; None: free text.
        tool_choice: "auto", "none", "required" or a named function. The last two apply to the first message only. With
            "none", the model does not see the tools.
        parallel: whether a message may contain several calls.
        max_rounds: the maximum number of messages with calls.
        repeats: whether a message may repeat calls.
        reasoning_end: see `AnswerSplitter`.
        options: the JSON options for arguments and answers.

    Attributes:
        tools: the functions, by name.
        messages: the conversation, including everything written in this turn.
        open_calls: the calls of the last message that the caller must still run.
        result: the result, once the model has answered.

    Raises:
        SpecError, UnsupportedError, OptionError: a tool, the choice or the constraint cannot be used.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        style: ToolStyle,
        messages: Sequence[Message] | Conversation,
        tools: Sequence[FunctionTool],
        constraint: Constraint,
        *,
        tool_choice: ToolChoice,
        parallel: bool,
        max_rounds: int,
        repeats: bool,
        reasoning_end: str,
        options: JsonSchemaKeywords,
    ) -> None:
        check_integer("max_rounds", max_rounds, minimum=0)
        for name, flag in (("parallel", parallel), ("repeats", repeats)):
            if not isinstance(flag, bool):
                raise OptionError(f"{name} is {brief(flag)}, but must be True or False", option=name)
        self._conversation = _to_conversation(messages)
        self.messages: list[Any] = list(self._conversation.messages)
        self._vocabulary, self._prompt_style = vocabulary, style
        self._style = style if constraint is not None else style.with_bare_calls()
        self.tools = {tool.name: tool for tool in tools}
        self._schemas = [tool.schema for tool in tools]
        callable_tools = chosen_tools(self._schemas, tool_choice)  # refuses duplicate names and unknown choices
        if callable_tools.mode != "auto" and not max_rounds:
            raise OptionError("tool_choice requires a call, but max_rounds is 0", option="max_rounds")
        self._choice, self._parallel, self._rounds_left, self._repeats = tool_choice, parallel, max_rounds, repeats
        self._constraint, self._options, self._reasoning_end = constraint, options, reasoning_end
        if tool_choice == "none":  # the model does not see the tools
            self._schemas = []
        self._parser, self._text_format = _parser_and_format(style, constraint) if self._schemas else (None, None)
        form = Markup.from_style(style.data).id_form or SHORT_IDS
        self._ids = CallIds(form, [str(call.get("id")) for call in _list_calls(self.messages)])
        self._calls, self._results = list[FunctionCall](), list[Result]()
        self._last_calls = list[FunctionCall]()  # of the last message
        self._reader: AnswerReader  # of the last message
        self.open_calls = list[FunctionCall]()
        self.result: ChatResult | None = None

    def request(self) -> TurnRequest:
        """The prompt and constraint of the next message, and options that override the turn's options."""
        messages = list(self.messages)
        if not self._rounds_left and self._schemas:
            self._schemas = []
            messages = _with_results(self._conversation.messages, self._calls, skip_repeated=not self._repeats)
        self._reader = self._new_reader()
        tools = [without_document_texts(schema) for schema in self._schemas]
        conversation = replace(self._conversation, messages=messages, tools=tools, tool_style=self._prompt_style)
        if not self._schemas and (self._constraint is not None or not self.tools):
            return conversation, self._constraint, dict(self._options)
        choice = self._choice if self._schemas else "none"
        is_auto = chosen_tools(self._schemas, choice).mode == "auto"
        is_mixed = self._text_format is None and (is_auto or self._style.is_always_mixed)
        tag = self._style.structural_tag(
            self._schemas,
            tool_choice=choice,
            parallel_tool_calls=self._parallel,
            mixed=is_mixed,
            text=self._text_format,
        )
        json_options = JsonSchemaOptions.for_generation(**self._options).non_defaults()

        def compile_tag(compiler: GrammarCompiler) -> CompiledGrammar:
            return compiler.compile_structural_tag(tag, allow_special_tokens=True, **json_options)

        constraint = ConstraintCompiler(compile_tag, open_ended=is_mixed, has_calls=bool(self._schemas))
        return conversation, constraint, {}

    def read(self, event: StreamEvent) -> Iterator[Delta | CallResult | ChatDone]:
        """Yield the deltas of an event. After the last event of a message, either `result` is set, or `open_calls`
        lists the calls to run. If `open_calls` is empty, the next request follows at once."""
        yield from self._reader.read(event)
        if event.result is None:
            return
        self._end_message(event.result)
        if self.result is not None:
            yield ChatDone(self.result)
            return
        if not self._repeats:
            yield from self._answer_repeated(self._reader.calls)
        self._last_calls = self._reader.calls

    def _answer_repeated(self, calls: Sequence[FunctionCall]) -> Iterator[CallResult]:
        """Remove repeated calls from the open calls.

        If the message repeats all calls of the previous message, answer them with the results of that message.
        """
        if _names_and_arguments(calls) == _names_and_arguments(self._last_calls):
            self._rounds_left, self.open_calls = 0, []
            for call, earlier in zip(calls, self._last_calls, strict=True):
                yield self._copy_result(earlier, call)
            self._append_results()
            return
        first_calls = {(call.name, call.text): call for call in reversed(calls)}
        self.open_calls = [call for call in calls if first_calls[call.name, call.text] is call]
        if len(self.open_calls) < len(calls):
            self._rounds_left = 0

    def answer(self, call: FunctionCall, value: Any) -> Iterator[CallResult]:
        """Record the value that a function returned, or the exception that it raised, for a call and its repeats."""
        try:
            if isinstance(value, Exception):
                raise value
            call.value, call.result = value, result_text(value)
        except Exception as error:
            call.error, call.result = error, f"error: {_error_message(error)}"
        self.open_calls.remove(call)
        yield CallResult(call)
        for other in self._reader.calls if not self._repeats else ():
            if other is not call and (other.name, other.text) == (call.name, call.text):
                yield self._copy_result(call, other)
        if not self.open_calls:
            self._append_results()

    def _copy_result(self, earlier: FunctionCall, call: FunctionCall) -> CallResult:
        """Give a call the result of an earlier one."""
        call.arguments, call.value, call.error = earlier.arguments, earlier.value, earlier.error
        call.result = earlier.result
        return CallResult(call)

    def _append_results(self) -> None:
        """Append the messages with the results, in the order of the calls."""
        self.messages += [
            {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": call.result}
            for call in self._reader.calls
        ]

    def _new_reader(self) -> AnswerReader:
        vocabulary, is_mixed = self._vocabulary, self._text_format is None
        call_reader = decoder = None
        if self._schemas:
            call_reader = self._style.reader(self._schemas, mixed=is_mixed, end_tokens=vocabulary.end_names)
            decoder = AnswerDecoder(vocabulary)
        splitter = AnswerSplitter(decoder, call_reader, reasoning_end=self._reasoning_end, has_stops=True)
        return AnswerReader(splitter, self._ids)

    def _end_message(self, result: Result) -> None:
        reader = self._reader
        message: dict[str, Any] = {"role": "assistant", "content": reader.text}
        if reader.reasoning:
            message["reasoning_content"] = reader.reasoning
        if reader.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for call in reader.calls
            ]
        self.messages.append(message)
        self._results.append(result)
        self._calls += [
            FunctionCall(self._ids.make(call.tool), call.tool, call.text, value=call.result, result=call.result)
            for call in result.tool_calls
        ]
        if reader.calls:
            self._calls += reader.calls
            self.open_calls = list(reader.calls)
            self._rounds_left -= 1
            self._choice = _choice_after_first_message(self._choice)
            return
        value: Any = None if self._schemas else result.value
        if self._schemas and self._parser is not None and result.finish_reason == "stop":
            value = self._parser(reader.text)
        self.result = ChatResult(reader.text, value, self.messages, self._calls, self._results)


def _to_conversation(messages: Sequence[Message] | Conversation) -> Conversation:
    """Check the messages, and return them as a `Conversation`.

    Raises:
        GuidedError: the messages are invalid. OptionError: the conversation has settings that `chat` determines itself.
    """
    if not isinstance(messages, Conversation):
        if isinstance(messages, bytes | Mapping) or not isinstance(messages, Sequence) or not messages:
            raise GuidedError(f"messages must be a string or a list of messages, not {brief(messages)}")
        messages = Conversation(list(messages))
    if invalid := [message for message in messages.messages if not isinstance(message, Mapping)]:
        raise GuidedError(f'{brief(invalid[0])} is not a message of the form {{"role": "user", "content": "..."}}')
    if messages.continue_final_message or not messages.add_generation_prompt:
        raise OptionError(
            "chat begins a new message, so it needs add_generation_prompt=True and continue_final_message=False"
        )
    if messages.tools:
        raise OptionError("pass the tools as the second argument of chat, not in the conversation", option="tools")
    return messages


def _list_calls(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    """The well-formed calls in a conversation."""
    for message in messages:
        calls = message.get("tool_calls")
        yield from (call for call in calls if isinstance(call, Mapping)) if isinstance(calls, list | tuple) else ()


def _choice_after_first_message(choice: ToolChoice) -> ToolChoice:
    """The tool choice of the messages after the first one: no call is required."""
    if isinstance(choice, Mapping) and isinstance(allowed := choice.get("allowed_tools"), Mapping):
        return {**choice, "allowed_tools": {**allowed, "mode": "auto"}}
    return "none" if choice == "none" else "auto"


def _with_results(messages: Sequence[Message], calls: Sequence[FunctionCall], *, skip_repeated: bool) -> list[Message]:
    """Return the conversation with the results of calls added to the question. `skip_repeated`: omit repeated calls."""
    lines = {
        (call.name, call.text) if skip_repeated else call.id: f"{call.name}({call.text}) returned: {call.result}"
        for call in calls
    }
    if not lines:
        return list(messages)
    text = "\n".join((_RESULTS_HEADING, *lines.values(), "", _ANSWER_REQUEST))
    if messages[-1]["role"] == "user":
        return [*messages[:-1], with_text(messages[-1], text)]
    return [*messages, {"role": "user", "content": text}]


def _names_and_arguments(calls: Sequence[FunctionCall]) -> list[tuple[str, str]]:
    return [(call.name, call.text) for call in calls]


def _parser_and_format(style: ToolStyle, constraint: Constraint) -> tuple[ValueParser | None, dict[str, Any] | None]:
    """The parser and the format of the answer's text, for a message that is either calls or such a text. Both are None
    without a constraint."""
    if constraint is None:
        return None, None
    if style.why_no_format:
        raise UnsupportedError(style.why_no_format, hint="leave out the constraint or the tools")
    if isinstance(constraint, bool | Mapping):
        return JSON_VALUE, {"type": "json_schema", "json_schema": constraint}
    if isinstance(constraint, str | list | tuple | re.Pattern | Expr | CompiledGrammar | ConstraintCompiler):
        raise SpecError("with tools, the constraint must be a JSON Schema or a type", hint="pass a class or a dict")
    parser = ValueParser(text_reader(constraint), True, constraint)
    return parser, {"type": "json_schema", "json_schema": type_to_schema(constraint)}


def _error_message(error: Exception) -> str:
    """The message of an error, preceded by its class unless it is a `GuidedError`."""
    try:
        message = str(error)
    except Exception:
        message = ""
    if isinstance(error, GuidedError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
