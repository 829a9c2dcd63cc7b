"""Reads a JSON config. Keys that are not read raise an error, unless they are known to have no effect on the results.

Keys whose value is null, false, 0 or empty raise no error, since configs disable features in this way. The exceptions
are keys with another neutral value, such as `is_causal`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from guided.errors import ModelFileError, UnsupportedError, brief

__all__ = ["ConfigReader", "positive", "size"]

_NO_VALUES: Final[Mapping[str, Any]] = MappingProxyType({})


class ConfigReader:
    """The values of one config. Records which keys were read."""

    def __init__(self, data: Any, location: str, ignored_keys: Collection[str]) -> None:
        """`ignored_keys`: keys without effect on the results. Raises ModelFileError if the config is not an object."""
        if not isinstance(data, dict):
            raise ModelFileError(f"{location}: a config is a JSON object")
        self.data, self.location, self._read_keys = data, location, set(ignored_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if the key is missing or its value is null."""
        self._read_keys.add(key)
        value = self.data.get(key)
        return default if value is None else value

    def get_nullable(self, key: str, default: Any) -> Any:
        """The value, which may be null, or the default if the key is missing."""
        return self.get(key) if key in self.data else self.get(key, default)

    def unsupported(self, key: str, reason: str, hint: str = "") -> UnsupportedError:
        """Return the error to raise for a key."""
        return UnsupportedError(f"{self.location}: {reason}", pointer=key, hint=hint)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        return positive(self.get(key, default), key, self.location)

    def size(self, key: str, default: int | None = None) -> int:
        """A positive integer."""
        return size(self.get(key, default), key, self.location)

    def number_or_none(self, key: str, default: float | None) -> float | None:
        """A positive number, or None if the value is null."""
        value = self.get_nullable(key, default)
        return None if value is None else positive(value, key, self.location)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ModelFileError(f"{self.location}: {key} is {brief(value)}, neither true nor false")
        return value

    def one_of(self, key: str, default: str, *allowed: str) -> str:
        """A name, which must be one of `allowed`."""
        value = self.get(key, default)
        if value not in allowed:
            raise self.unsupported(key, f"{key} {brief(value)} is not supported", f"supported: {', '.join(allowed)}")
        return str(value)

    def finish(
        self, reasons: Mapping[str, str], default_reason: str, hint: str = "", neutral: Mapping[str, Any] = _NO_VALUES
    ) -> None:
        """Raise an error for a key that was not read and might change the results. `reasons`: the reason for some keys;
        `default_reason`: the reason for other keys, with `{}` for the key. `neutral`: the only value without effect,
        besides null, for some keys.
        """
        for key, value in self.data.items():
            if key not in self._read_keys and (
                value is not None and value != neutral[key] if key in neutral else value
            ):
                raise self.unsupported(key, reasons.get(key, default_reason.replace("{}", key)), hint)


def positive(value: Any, key: str, location: str) -> float:
    """A positive number that is plausible as a size or a scale."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        raise ModelFileError(f"{location}: {key} is {brief(value)}, but must be a positive number")
    return value


def size(value: Any, key: str, location: str) -> int:
    """A positive integer."""
    value = positive(value, key, location)
    if value != int(value):
        raise ModelFileError(f"{location}: {key} is {brief(value)}, but must be an integer")
    return int(value)
