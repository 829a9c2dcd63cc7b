"""Compiles and renders chat templates with Jinja, in a sandbox and with a cost limit.

In: the text of a template, and its variables. Out: the rendered text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

from guided.chat.render_budget import STEP, limit_rendering
from guided.errors import GuidedError, UnsupportedError
from guided.frontends.structural_tag.markup import format_call_id

__all__ = ["CompiledTemplate", "TemplateRefusal", "compile_template"]

_MAX_LENGTH: Final = 1 << 16  # characters of a template; published templates have at most about 20,000
_PROBE_TOOL: Final = {"type": "function", "function": {"name": "f", "description": "f", "parameters": {
    "type": "object", "properties": {"probing": {"type": "string", "description": "d"}}, "required": []}}}  # fmt: skip


_PROBE_USER: Final = {"role": "user", "content": "u"}
_PROBE_ANSWER: Final = {"role": "assistant", "content": "a"}
_RESULT, _UNKNOWN_ROLE = "probedresult", "probedrole"
_PROBE_PARTS: Final = [{"type": "text", "text": "probedone"}, {"type": "text", "text": "probedtwo"}]
_QUOTED_PART: Final = re.compile(r"""["']probedone["']""")
_NO_VARIABLES: Final[Mapping[str, Any]] = {}
_SHORT_ID, _LONG_ID = format_call_id(0), "call_0123456789abcdef"


class TemplateRefusal(GuidedError):
    """A template refuses a conversation with `raise_exception`, because it does not support something in it."""


class CompiledTemplate:
    """One compiled template.

    Attributes:
        variables: variables that the template reads and does not set.
        names: the strings in the template's expressions, and the names of attributes that the template reads.
        role_names: the strings that the template compares with a role, or sets as one.
    """

    def __init__(self, source: str) -> None:
        self._part_readers: dict[tuple[str, bool], bool] = {}
        self._call_texts: dict[str, str] = {}  # an id -> made-up messages with this id, rendered
        if len(source) > _MAX_LENGTH:
            raise UnsupportedError(f"the chat template has {len(source)} characters, more than {_MAX_LENGTH}")
        try:
            from jinja2 import TemplateSyntaxError, meta, nodes

            from guided.chat.sandbox import environment
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("jinja2", "markupsafe"):
                raise
            raise GuidedError("chat templates need the package jinja2: pip install 'guided-decoding[engine]'") from None
        try:
            with limit_rendering(len(source)):
                self._template = environment().from_string(source)
                tree = environment().parse(source)
                self.names = _list_strings(tree) | {node.attr for node in tree.find_all(nodes.Getattr)}
                uses = [node for node in tree.find_all((nodes.Compare, nodes.Assign)) if _mentions_role(node)]
                self.role_names = frozenset[str]().union(*map(_list_strings, uses)) - {"role"}
                self.variables = frozenset(meta.find_undeclared_variables(tree))  # last, since it folds constants
        except TemplateSyntaxError as error:
            reason = f"the chat template is not valid Jinja: {error.message} (line {error.lineno})"
            raise UnsupportedError(reason, hint="give the prompt as text with raw=True, or token ids") from None
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            raise UnsupportedError(f"the chat template cannot be compiled: {type(error).__name__}") from None

    @cached_property
    def arguments_are_text(self) -> bool:
        """Whether the template prints a call's arguments unchanged instead of encoding them as JSON.

        This is found by rendering two made-up calls.
        """
        texts = [self._render_probe(_make_call_messages(value, "t")) for value in ({"probed": "p"}, '{"probed": "p"}')]
        return ("probed" not in texts[0] or "{'probed'" in texts[0]) and '"probed"' in texts[1]

    def reads_parts(self, role: str, variables: Mapping[str, Any], *, has_tools: bool) -> bool:
        """Whether the template writes the texts of all content parts of messages with this role, one after the other.

        If not, it takes the content as a string. Then it fails for a list, prints it as Python or JSON, or reads only
        the first part. This is found by rendering a made-up conversation.

        Args:
            role: the role of the messages.
            variables: the values of `bos_token` and similar variables.
            has_tools: whether the conversation has tools.
        """
        key = (str(role), has_tools)
        if key not in self._part_readers:
            messages = _make_part_messages(role)
            text = self._render_probe(messages, variables, has_tools=has_tools or role == "tool")
            expected_count = sum(isinstance(message["content"], list) for message in messages)
            self._part_readers[key] = _count_parts(text) == expected_count and not _QUOTED_PART.search(text)
        return self._part_readers[key]

    def needs_short_ids(self, variables: Mapping[str, Any]) -> bool:
        """Whether the template refuses ids of calls other than nine letters and digits, as Mistral's do."""
        return bool(self._render_call(_SHORT_ID, variables)) and not self._render_call(_LONG_ID, variables)

    def shows_call_ids(self, variables: Mapping[str, Any]) -> bool:
        """Whether the template shows the id of a call next to the call, and not only next to its result."""
        return self._render_call(_SHORT_ID, variables).count(_SHORT_ID) > 1

    @cached_property
    def writes_results(self) -> bool:
        """Whether the template has a form for results of calls: it writes a message of the role `tool` in another way
        than one of an unknown role, even if the call is part of the assistant's text."""
        texts = [
            self._render_probe([_PROBE_USER, _PROBE_ANSWER, {"role": role, "content": _RESULT}], has_tools=False)
            for role in ("tool", _UNKNOWN_ROLE)
        ]
        return _RESULT in texts[0] and texts[0] != texts[1].replace(_UNKNOWN_ROLE, "tool")

    def _render_call(self, id: str, variables: Mapping[str, Any]) -> str:
        """A made-up call with this id, and its result. "": the template refuses them."""
        if id not in self._call_texts:
            self._call_texts[id] = self._render_probe(_make_call_messages({}, "r", id), variables)
        return self._call_texts[id]

    def _render_probe(
        self, messages: list[dict[str, Any]], variables: Mapping[str, Any] = _NO_VARIABLES, *, has_tools: bool = True
    ) -> str:
        tools = [_PROBE_TOOL] if has_tools else None
        try:
            return self.render(messages=messages, tools=tools, add_generation_prompt=False, **variables)
        except GuidedError:
            return ""

    def render(self, **variables: Any) -> str:
        """The output of the template. Raises the same errors as `ChatTemplate.render`."""
        from jinja2 import TemplateError
        from jinja2.exceptions import SecurityError

        from guided.chat.sandbox import Refusal

        try:
            with limit_rendering(_measure(variables)):
                return self._template.render(**variables)
        except GuidedError:
            raise
        except Refusal as error:
            raise TemplateRefusal(f"the model's chat template refuses this conversation: {error}") from None
        except SecurityError as error:
            raise UnsupportedError(f"the model's chat template uses a forbidden operation: {error}") from None
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise GuidedError(f"the model's chat template cannot render this conversation: {reason}") from None
        except RecursionError:
            raise UnsupportedError("the model's chat template nests too deeply") from None
        except MemoryError:
            raise MemoryError("the conversation is too long to render") from None


@lru_cache(maxsize=32)
def compile_template(source: str) -> CompiledTemplate:
    """The compiled template. Raises UnsupportedError if it is invalid, or too large."""
    return CompiledTemplate(source)


def _list_strings(node: Any) -> frozenset[str]:
    """The strings in a node of a template's syntax tree."""
    from jinja2 import nodes

    values = [constant.value for constant in ([node] if isinstance(node, nodes.Const) else node.find_all(nodes.Const))]
    return frozenset(value for value in values if isinstance(value, str))


def _mentions_role(node: Any) -> bool:
    """Whether a node reads or sets a role: `message.role`, `message['role']`, `role` or `roles`."""
    from jinja2 import nodes

    names = [name.name for name in node.find_all(nodes.Name)] + [one.attr for one in node.find_all(nodes.Getattr)]
    return "role" in _list_strings(node) or any("role" in name for name in names)


def _make_call_messages(arguments: Any, result: Any, id: str = _SHORT_ID) -> list[dict[str, Any]]:
    """Made-up messages: a call with these arguments, and its result."""
    call = {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}
    assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [_PROBE_USER, assistant, {"role": "tool", "content": result, "name": "f", "tool_call_id": id}]


def _count_parts(text: str) -> int:
    """How often the first part of `_PROBE_PARTS` is followed by the second."""
    first, second = (part["text"] for part in _PROBE_PARTS)
    count, end = 0, 0
    while (start := text.find(first, end)) >= 0 and (second_start := text.find(second, start)) >= 0:
        count, end = count + 1, second_start + len(second)
    return count


def _make_part_messages(role: str) -> list[dict[str, Any]]:
    """A made-up conversation in which messages with this role consist of parts: the user's first and later messages, or
    one message with another role."""
    message = {"role": role, "content": _PROBE_PARTS}
    match role:
        case "user":
            return [message, {"role": "assistant", "content": "a"}, message]
        case "assistant":
            return [_PROBE_USER, message, _PROBE_USER]
        case "tool":
            return _make_call_messages({}, _PROBE_PARTS)
        case _:
            return [message, _PROBE_USER]


def _measure(value: Any) -> int:
    """The size of a value for `limit_rendering`: its number of characters, plus `STEP` for each contained value."""
    out, pending = 0, [value]
    while pending:
        item = pending.pop()
        out += STEP + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            pending += item
    return out
