"""Requests to /v1/chat/completions: builds the engine's request, and defines how its answers are read.

In: the request, the engine, the operator's settings. Out: an engine request, and the `ReadingOptions` for its answers.
The prompt of the engine request describes the tools. If the model reasons, reasoning comes before the answer. If there
is neither a constraint nor a stop option, the answer may call the server's own tools.

Stop options end free text only: the whole answer, or the text before and after calls or after reasoning. If they have
no effect, the answer contains a warning instead of an error, so programs that always send stop options also work with
tools and response formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from guided.chat import DEFAULT_TOOL_STYLE, Conversation
from guided.engine import Engine
from guided.engine.answer_splitter import AnswerSplitter
from guided.engine.reasoning import reasoning_end_text
from guided.engine.request import Options, Request
from guided.engine.token_text import AnswerDecoder
from guided.frontends.structural_tag.call_ids import SHORT_IDS, CallIds
from guided.frontends.structural_tag.markup import Markup
from guided.frontends.structural_tag.tool_styles import ToolStyle, tool_style
from guided.server.http.errors import RequestError
from guided.server.openai.deltas import ReadingOptions
from guided.server.openai.requests import ChatRequest, remove_stops
from guided.server.openai.structured import StructuredOutput
from guided.server.openai.tools import Functions
from guided.server.settings import Settings
from guided.tools.tool import Tool
from guided.tools.toolbox import Toolbox
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["build_chat_request", "resolve_tool_style"]


def resolve_tool_style(engine: Engine, settings: Settings) -> ToolStyle:
    """The model's style of tool calls: from the settings, otherwise from its chat template, otherwise the default."""
    if settings.tool_style is not None:
        return tool_style(settings.tool_style)
    template_style = engine.chat_template.style if engine.chat_template is not None else None
    return template_style or tool_style(DEFAULT_TOOL_STYLE)


def build_chat_request(
    chat: ChatRequest, structured_output: StructuredOutput, engine: Engine, settings: Settings
) -> tuple[Request, ReadingOptions, Mapping[str, str]]:
    """Build the engine request, the reading options, and the warnings about fields without effect (field -> message).

    Args:
        chat: the request.
        structured_output: its constraint on the text.
        engine, settings: the engine and the settings of the server.

    Raises:
        RequestError: the model cannot reason as requested, include_partial_json cannot be used, or
            `Functions.from_request` rejects the tools.
    """
    style, vocabulary = resolve_tool_style(engine, settings), engine.vocabulary
    is_reasoning = _resolve_reasoning(chat, settings)
    functions = None
    if chat.tools is not None:
        functions = Functions.from_request(
            chat.tools, chat.tool_choice, parallel=chat.parallel_tool_calls is not False, style=style,
            vocabulary=vocabulary, structured_output=structured_output,
        )  # fmt: skip
    options: dict[str, Any] = chat.engine_options(settings.default_max_tokens or engine.context)
    constraint = structured_output.constraint if functions is None else functions.constraint
    warnings: Mapping[str, str] = {}
    if constraint is not None or is_reasoning:
        allows_free_text = constraint is None if functions is None else functions.constraint.open_ended
        warnings = chat.stop_warnings(
            _describe_constraint(structured_output, functions), allows_free_text=allows_free_text
        )
        options = remove_stops(options, keep=("stop",) if allows_free_text else ())
    if functions is None:
        options |= dict(structured_output.options)
    else:
        warnings = {**functions.warnings, **warnings}
    server_tools = settings.tools if constraint is None and not chat.stops else ()
    if server_tools:
        options["tools"] = server_tools
    if is_reasoning:
        options["reasoning_end"] = settings.reasoning_end
    options |= {name: value for name in ("describe", "think_first") if (value := getattr(chat, name)) is not None}
    if chat.tools is not None and constraint is None:
        # tool_choice is "none", so describe=True has nothing to describe. As in `Engine.chat`, this is not an error.
        options["describe"] = False
    begins_with_reasoning = is_reasoning or chat.think_first is not None
    reasoning_end = reasoning_end_text(vocabulary, settings.reasoning_end) if is_reasoning else ""
    splitter_class = partial(AnswerSplitter, reasoning_end=reasoning_end, has_stops="stop" in options)
    reading_options = ReadingOptions(
        make_call_reader=functions.reader if functions is not None else None,
        make_splitter=partial(_make_answer_splitter, vocabulary, functions, server_tools, splitter_class),
        make_call_ids=partial(CallIds, Markup.from_style(style.data).id_form or SHORT_IDS, chat.call_ids),
        begins_with_reasoning=begins_with_reasoning,
        shows_reasoning=chat.include_reasoning,
        trims_line_ends=is_reasoning and structured_output.constraint is None,
        has_named_function=functions is not None and functions.has_named_function,
        reports_partial_json=_resolve_partial_json(chat, structured_output),
    )
    prompt = _build_conversation(
        chat, functions.tools if functions is not None else (), style, engine, settings, is_reasoning
    )
    return Request(prompt, constraint, n=chat.n, options=cast(Options, options)), reading_options, warnings


def _resolve_partial_json(chat: ChatRequest, structured_output: StructuredOutput) -> bool:
    """Whether each chunk says how to complete the JSON so far.

    Raises:
        RequestError: the answer is not JSON, or continues a message.
    """
    is_wanted = chat.stream_options is not None and chat.stream_options.include_partial_json
    if is_wanted and not structured_output.is_json:
        message = "include_partial_json requires JSON output: set response_format to json_schema or json_object"
        raise RequestError(message, param="stream_options.include_partial_json")
    if is_wanted and chat.continue_final_message:
        message = (
            "include_partial_json cannot be combined with continue_final_message, "
            "because the continued message already contains the beginning of the JSON"
        )
        raise RequestError(message, param="stream_options.include_partial_json")
    return is_wanted


def _make_answer_splitter(
    vocabulary: Vocabulary,
    functions: Functions | None,
    server_tools: Sequence[Tool],
    splitter_class: Callable[..., AnswerSplitter],
) -> AnswerSplitter:
    if functions is not None:
        return splitter_class(AnswerDecoder(vocabulary), functions.reader(vocabulary.end_names))
    toolbox = Toolbox(server_tools, vocabulary) if server_tools else None
    return splitter_class(None if toolbox is None else AnswerDecoder(vocabulary, toolbox, keep_control_names=False))


def _describe_constraint(structured_output: StructuredOutput, functions: Functions | None) -> str:
    """What constrains the answer, as a clause for a warning. Without calls and a specification, it is the reasoning."""
    if functions is not None and functions.constraint.open_ended:
        return "this answer may contain calls"
    if structured_output.constraint is not None and (functions is None or functions.has_text_format):
        return f"{structured_output.param} determines this answer"
    return "this answer consists of calls" if functions is not None else "this answer begins with reasoning"


def _build_conversation(
    chat: ChatRequest,
    tools: Sequence[Mapping[str, Any]],
    style: ToolStyle,
    engine: Engine,
    settings: Settings,
    is_reasoning: bool,
) -> Conversation:
    """Build the input of the chat template."""
    names = dict[str, str]()  # of the latest call with an id
    messages = [message.to_engine_message() for message in chat.messages]
    for message in messages:
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        if message["role"] == "tool":
            message["name"] = names[message["tool_call_id"]]
    template_options = chat.chat_template_kwargs
    variables = template_options.other_variables if template_options is not None else {}
    reasoning_variables = dict[str, bool]()
    if settings.reasoning_end or (template_options is not None and template_options.is_reasoning_on is not None):
        uses_variable = engine.chat_template.uses_variable if engine.chat_template is not None else lambda _: False
        reasoning_variables = {name: is_reasoning for name in ("enable_thinking", "thinking") if uses_variable(name)}
    starts_new_message = chat.add_generation_prompt is not False and not chat.continue_final_message
    return Conversation(
        messages,
        tools,
        style,
        begin=""
        if not starts_new_message or (reasoning_variables and not is_reasoning)
        else _make_answer_prefix(settings, is_reasoning),
        documents=chat.documents or (),
        variables=variables | reasoning_variables,
        add_generation_prompt=starts_new_message,
        continue_final_message=chat.continue_final_message,
    )


def _resolve_reasoning(chat: ChatRequest, settings: Settings) -> bool:
    """Whether the model reasons first. If the answer continues the last message, the reasoning is already over.

    Raises:
        RequestError: the request turns reasoning on, but the answer cannot begin with it.
    """
    wants_reasoning = chat.wants_reasoning()
    if chat.continue_final_message:
        if wants_reasoning:
            message = "continue_final_message continues an answer, so chat_template_kwargs cannot turn reasoning on"
            raise RequestError(message, param="continue_final_message")
        return False
    if wants_reasoning and not settings.reasoning_end:
        message = "this server's model does not reason before it answers (the operator has not set --reasoning-end)"
        raise RequestError(message, param="chat_template_kwargs")
    return bool(settings.reasoning_end) and wants_reasoning is not False


def _make_answer_prefix(settings: Settings, is_reasoning: bool) -> str:
    """The beginning of the answer, as in Qwen 3's templates: the begin marker of the reasoning, or empty reasoning.

    If the chat template already ends with a part of this text, that part is not written twice (`Conversation.begin`).
    """
    if not settings.reasoning_end or not settings.reasoning_begin:
        return ""
    return f"{settings.reasoning_begin}\n" + ("" if is_reasoning else f"\n{settings.reasoning_end.rstrip()}\n\n")
