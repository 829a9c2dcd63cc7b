"""Requests of other APIs that are answered as chat completions. In: a request. Out: a `ChatRequest`.

A subclass defines the fields of its API, and builds a body for /v1/chat/completions from them. In errors of the chat
completion, fields get the names that they have in the original request.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

from guided.chat.conversation import MessageError
from guided.errors import BudgetError, OptionError, SpecError, UnsupportedError
from guided.server.http.errors import RequestError, make_error_body
from guided.server.openai.reading import StrictModel, read_request
from guided.server.openai.requests import ChatRequest

__all__ = ["ConvertedRequest"]


class ConvertedRequest(StrictModel):
    """See the module docstring.

    Attributes:
        renames: pairs of a pattern and its replacement. They turn the chat request's field names into this request's,
            in `param` and in messages.
    """

    renames: ClassVar[Sequence[tuple[re.Pattern[str], str]]] = ()
    model: str | None = None

    @abstractmethod
    def chat_body(self) -> dict[str, Any]:
        """The JSON object that `to_chat_request` parses."""

    @abstractmethod
    def chat_messages(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The messages in the form of chat completions, and the location of each in this request."""

    @abstractmethod
    def rename_pointer(self, pointer: str) -> str:
        """Convert a JSON pointer into the chat request's tools, such as `tools/0/function/parameters/type`, to the
        pointer in this request.
        """

    def rename(self, text: str) -> str:
        """Replace the chat request's field names in `text` with this request's."""
        for pattern, name in self.renames:
            text = pattern.sub(name, text)
        return re.sub(
            r"^messages\.(\d+)[\w.]*|^message (\d+)(?=[: ])",
            lambda match: self.chat_messages()[1][int(match[1] or match[2])],
            text,
        )

    def to_chat_request(self) -> ChatRequest:
        """This request as a chat completion request.

        Raises:
            RequestError: the request is refused; the error uses this request's field names.
        """
        with self.rename_errors():
            return read_request(ChatRequest, self.chat_body())

    @contextmanager
    def rename_errors(self) -> Iterator[None]:
        """Give fields in errors of the chat request the names that they have in this request."""
        try:
            yield
        except RequestError as error:
            raise RequestError(
                self.rename(error.message),
                param=self.rename_param(error.param),
                code=error.code,
                status=error.status,
                retry_after=error.retry_after,
            ) from error
        except (SpecError, UnsupportedError) as error:
            renamed_error = copy(error)  # a compiler owns the original, and may raise it again
            renamed_error.pointer = self.rename_pointer(error.pointer)
            raise renamed_error from error
        except (BudgetError, MessageError, OptionError) as error:
            error_body = make_error_body(error)["error"]
            raise RequestError(
                self.rename(error_body["message"]),
                param=self.rename_param(error_body["param"]),
                code=error_body["code"],
            ) from error

    def rename_param(self, name: str | None) -> str | None:
        """The name that a field of the chat request has in this request."""
        return self.rename(name) if name else None
