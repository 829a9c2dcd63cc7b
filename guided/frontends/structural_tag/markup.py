"""Describes the texts before and after calls, with their placeholders. In: a style's description (tool_styles.py). Out:
for one function, the text and the patterns that a structural tag, a reader or a prompt needs.

    "functions.{name}:{index}<|sep|>"      head: "functions.f:"      rest: [0-9]+, "<|sep|>"

{name} is the function's name, {index} the number of the call, and {id} an identifier of the call, which the model
chooses. In prompts, identifiers are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Markup", "Pattern", "section_begins"]

_PLACEHOLDER: Final = re.compile(r"(\{name\}|\{index\}|\{id\})")
_ID: Final = "[a-zA-Z0-9]{9}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with placeholders. `id_pattern`: a regular expression for identifiers of calls."""

    text: str
    id_pattern: str = _ID

    def preceded_by(self, text: str) -> Pattern:
        """This pattern, with `text` before it."""
        return Pattern(text + self.text, self.id_pattern)

    def parts(self, name: str) -> list[tuple[str, bool]]:
        """The parts in order. The Boolean of a part says whether it is a regular expression. The first part is a text,
        which may be empty.
        """
        out: list[tuple[str, bool]] = [("", False)]
        for part in _PLACEHOLDER.split(self.text):
            if part in ("{index}", "{id}"):
                out.append(("[0-9]+" if part == "{index}" else self.id_pattern, True))
            elif part:
                text = name if part == "{name}" else part
                last_part, is_pattern = out[-1]
                out[-1:] = [(last_part, True), (text, False)] if is_pattern else [(last_part + text, False)]
        return out

    def head(self, name: str) -> str:
        """The text before the first number or identifier."""
        return self.parts(name)[0][0]

    def rest(self, name: str) -> str:
        """A regular expression for the text after the head; "" if there is none. If {name} is in it, the name is a
        named group."""
        _, mark, tail = self._split_at_pattern()
        if not mark:
            return ""
        out = ""
        for part in _PLACEHOLDER.split(mark + tail):
            patterns = {"{index}": "[0-9]+", "{id}": self.id_pattern, "{name}": f"(?P<name>{re.escape(name)})"}
            out += patterns.get(part, re.escape(part))
        return out

    @property
    def name_offset(self) -> int:
        """The offset of the name in the head; -1 if it comes later."""
        return self._split_at_pattern()[0].find("{name}")

    @property
    def tail(self) -> str:
        """The text after the last placeholder."""
        return _PLACEHOLDER.split(self.text)[-1]

    @property
    def ends_in_placeholder(self) -> bool:
        """Whether the text ends in a name, a number or an identifier."""
        return self.text.endswith(("{name}", "{index}", "{id}"))

    def _split_at_pattern(self) -> tuple[str, str, str]:
        match = re.search(r"\{index\}|\{id\}", self.text)
        if match is None:
            return self.text, "", ""
        return self.text[: match.start()], match[0], self.text[match.end() :]

    def fill(self, number: int) -> str:
        """The text for call `number` of a prompt, with {name} left in it."""
        return self.text.replace("{index}", str(number)).replace("{id}", f"call{number:05d}")


@dataclass(frozen=True, slots=True)
class Markup:
    """The texts around one call.

    Attributes:
        begins, ends: the possible texts before and after the arguments. Prompts have the first ones.
        arguments: the form of the arguments; see `argument_form`.
        first_number: the number of the first call.
    """

    begins: tuple[Pattern, ...]
    ends: tuple[Pattern, ...]
    arguments: str | Mapping[str, Any]
    first_number: int

    @classmethod
    def from_style(cls, style: Mapping[str, Any]) -> Markup:
        """The markup of a style."""
        call = style["call"]
        begins, ends = (
            tuple(Pattern(text, call.get("id", _ID)) for text in ([markers] if isinstance(markers, str) else markers))
            for markers in (call["begin"], call["end"])
        )
        return cls(begins, ends, call["arguments"], call.get("first", 0))

    @property
    def has_fixed_ends(self) -> bool:
        """Whether no text after the arguments has a placeholder."""
        return not any(_PLACEHOLDER.search(end.text) for end in self.ends)

    @property
    def end_pattern(self) -> re.Pattern[str]:
        """A regular expression for the text after the arguments."""
        return re.compile("|".join(re.escape(end.head("")) + end.rest("") for end in self.ends))

    def end_pattern_before(self, end_tokens: Collection[str]) -> re.Pattern[str]:
        """A regular expression for white space and the text after the arguments, if it ends with one of these tokens,
        without this token.
        """
        ends = [
            Pattern(end.text.removesuffix(token), end.id_pattern)
            for end in self.ends
            for token in end_tokens
            if token and end.text.endswith(token)
        ]
        never = r"\b\B"
        patterns = [re.escape(end.head("")) + end.rest("") for end in ends] or [never]
        return re.compile(rf"\s*(?:{'|'.join(patterns)})")


def section_begins(section: Mapping[str, Any]) -> list[str]:
    """The texts with which a group of calls may begin, up to its first call. Prompts have the first one."""
    opens = section.get("open", "")
    return [section["begin"] + text for text in ([opens] if isinstance(opens, str) else opens)]
