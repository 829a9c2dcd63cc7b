"""The base class of the classes in this package: two instances are equal if they wrap the same object."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["XGRObject"]


class XGRObject:
    """A thin wrapper around another object, its `_handle`. As in xgrammar, two wrappers are equal if they wrap the
    same object."""

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def _create_from_handle(cls, handle: Any) -> Self:
        """Create an instance that wraps `handle`, without calling `__init__`."""
        instance = cls.__new__(cls)
        instance._init_handle(handle)
        return instance

    def _init_handle(self, handle: Any) -> None:
        """Set the wrapped object."""
        self.__handle = handle

    @property
    def _handle(self) -> Any:
        """The wrapped object."""
        return self.__handle

    def __eq__(self, other: object) -> bool:
        """Whether `self` and `other` wrap the same object."""
        return self._handle is other._handle if isinstance(other, XGRObject) else NotImplemented
