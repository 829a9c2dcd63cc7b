"""Compiles and renders chat templates with Jinja, in a sandbox and with a cost limit.

In: the text of a template, and its variables. Out: the rendered text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

from guided.chat.render_budget import STEP, limit_rendering
from guided.errors import GuidedError, UnsupportedError

__all__ = ["CompiledTemplate", "TemplateRefusal", "compile_template"]

_MAX_LENGTH: Final = 1 << 16  # characters of a template; published templates have at most about 20,000
_PROBE_TOOL: Final = {"type": "function", "function": {"name": "f", "description": "f", "parameters": {
    "type": "object", "properties": {"probing": {"type": "string", "description": "d"}}, "required": []}}}  # fmt: skip


class TemplateRefusal(GuidedError):
    """A template refuses a conversation with `raise_exception`, because it does not support something in it."""


class CompiledTemplate:
    """One compiled template.

    Attributes:
        variables: variables that the template reads and does not set.
    """

    def __init__(self, source: str) -> None:
        if len(source) > _MAX_LENGTH:
            raise UnsupportedError(f"the chat template has {len(source)} characters, more than {_MAX_LENGTH}")
        try:
            from jinja2 import TemplateSyntaxError, meta

            from guided.chat.sandbox import environment
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("jinja2", "markupsafe"):
                raise
            raise GuidedError("chat templates need the package jinja2: pip install 'guided-decoding[engine]'") from None
        try:
            with limit_rendering(len(source)):
                self._template = environment().from_string(source)
                self.variables = frozenset(meta.find_undeclared_variables(environment().parse(source)))
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
        texts = [self._render_probe(value) for value in ({"probed": "p"}, '{"probed": "p"}')]
        return ("probed" not in texts[0] or "{'probed'" in texts[0]) and '"probed"' in texts[1]

    def _render_probe(self, arguments: Any) -> str:
        call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": arguments}}
        user = {"role": "user", "content": "u"}
        messages = [user, {"role": "assistant", "content": "", "tool_calls": [call]}]
        messages += [{"role": "tool", "content": "t", "name": "f", "tool_call_id": "call00000"}]
        try:
            return self.render(messages=messages, tools=[_PROBE_TOOL], add_generation_prompt=False)
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
