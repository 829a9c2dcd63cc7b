"""Describes the texts before and after calls, with their placeholders. In: a style's description (tool_styles.py). Out:
for one function, the text and the patterns that a structural tag, a reader or a prompt needs.

    "functions.{name}:{index}<|sep|>"      head: "functions.f:"      rest: [0-9]+, "<|sep|>"

{name} is the function's name, {index} the number of the call, and {id} an identifier of the call, which the model
chooses. In prompts, identifiers are numbered. `Markup.id_form` says how the id of a call consists of these parts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

__all__ = ["Markup", "Pattern", "format_call_id", "section_begins"]

_PLACEHOLDER: Final = re.compile(r"(\{name\}|\{index\}|\{id\})")
_ID: Final = "[a-zA-Z0-9]{9}"


def format_call_id(number: int) -> str:
    """The id of a call by its number: nine letters and digits, as Mistral's chat templates require."""
    return f"call{number:05d}"


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

    def rest(self, name: str, suffix: str = "") -> str:
        """A regular expression for the text after the head; "" if there is none. Placeholders in it are named groups,
        such as `index`, followed by the suffix."""
        _, mark, tail = self._split_at_pattern()
        return self._to_regex(mark + tail, re.escape(name), suffix) if mark else ""

    def read(self, text: str) -> dict[str, str] | None:
        """The values of the placeholders in a text, such as `{"name": "f", "index": "0"}`; None: it does not match."""
        match = _compile(self._to_regex(self.text, ".*")).fullmatch(text)
        return None if match is None else match.groupdict()

    def write(self, values: Mapping[str, str]) -> str:
        """The text with these values of its placeholders; "" if a value is missing."""
        if not values.keys() >= {placeholder[1:-1] for placeholder in _PLACEHOLDER.findall(self.text)}:
            return ""
        return _PLACEHOLDER.sub(lambda placeholder: values[placeholder[0][1:-1]], self.text)

    def _to_regex(self, text: str, name_pattern: str, suffix: str = "") -> str:
        patterns, named, out = {"index": "[0-9]+", "id": self.id_pattern, "name": name_pattern}, set[str](), ""
        for part in _PLACEHOLDER.split(text):
            placeholder = part[1:-1] if _PLACEHOLDER.fullmatch(part) else ""
            pattern = patterns.get(placeholder, re.escape(part))
            out += f"(?P<{placeholder}{suffix}>{pattern})" if placeholder and placeholder not in named else pattern
            named.add(placeholder)
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
        return self.text.replace("{index}", str(number)).replace("{id}", format_call_id(number))


@lru_cache(maxsize=64)
def _compile(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Markup:
    """The texts around one call.

    Attributes:
        begins, ends: the possible texts before and after the arguments. Prompts have the first ones.
        arguments: the form of the arguments; see `argument_form`.
        first_number: the number of the first call.
        id_form: the ids that the model gives to calls, such as `functions.{name}:{index}`; None: it writes no ids.
    """

    begins: tuple[Pattern, ...]
    ends: tuple[Pattern, ...]
    arguments: str | Mapping[str, Any]
    first_number: int
    id_form: Pattern | None = None

    @classmethod
    def from_style(cls, style: Mapping[str, Any]) -> Markup:
        """The markup of a style."""
        call = style["call"]
        begins, ends = (
            tuple(Pattern(text, call.get("id", _ID)) for text in ([markers] if isinstance(markers, str) else markers))
            for markers in (call["begin"], call["end"])
        )
        has_id = any("{id}" in marker.text for marker in (*begins, *ends))
        id_text = call.get("id_form", "{id}" if has_id else "")
        id_form = Pattern(id_text, call.get("id", _ID)) if id_text else None
        return cls(begins, ends, call["arguments"], call.get("first", 0), id_form)

    @property
    def has_fixed_ends(self) -> bool:
        """Whether no text after the arguments has a placeholder."""
        return not any(_PLACEHOLDER.search(end.text) for end in self.ends)

    @property
    def end_pattern(self) -> re.Pattern[str]:
        """A regular expression for the text after the arguments. It has the groups of `Pattern.rest`; the suffix is the
        number of the end."""
        return re.compile(_alternatives(self.ends))

    def end_pattern_before(self, end_tokens: Collection[str]) -> re.Pattern[str]:
        """A regular expression for whitespace and the text after the arguments, if it ends with one of these tokens,
        without this token. Its groups are those of `end_pattern`.
        """
        ends = [
            Pattern(end.text.removesuffix(token), end.id_pattern)
            for end in self.ends
            for token in end_tokens
            if token and end.text.endswith(token)
        ]
        never = r"\b\B"
        return re.compile(rf"\s*(?:{_alternatives(ends) if ends else never})")


def _alternatives(ends: Sequence[Pattern]) -> str:
    return "|".join(re.escape(end.head("")) + end.rest("", str(number)) for number, end in enumerate(ends))


def section_begins(section: Mapping[str, Any]) -> list[str]:
    """The texts with which a group of calls may begin, up to its first call. Prompts have the first one."""
    opens = section.get("open", "")
    return [section["begin"] + text for text in ([opens] if isinstance(opens, str) else opens)]
