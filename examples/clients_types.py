"""What all `clients_*.py` share: the address of the server, and the types that they request. The types contain an
enumeration, a nested model, a union, and recursion.

GUIDED_URL is the address of the server, and GUIDED_MODEL the name of its model, as `guided serve` prints them.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field

URL = os.environ.get("GUIDED_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("GUIDED_MODEL", "smollm2-135m-instruct")
KEY = os.environ.get("GUIDED_API_KEY", "none")  # a server without keys accepts any key
TOKENS = 600  # any answer is complete within this budget


class Kind(StrEnum):
    """The kind of a piece of water."""

    river = "river"
    lake = "lake"


class Point(BaseModel):
    """A place on a map, in whole degrees."""

    latitude: int = Field(ge=-90, le=90)
    longitude: int = Field(ge=-180, le=180)


class Bridge(BaseModel):
    """A bridge across the water."""

    by: Literal["bridge"]
    metres: int = Field(ge=1, le=9999)


class Ferry(BaseModel):
    """A ferry across the water."""

    by: Literal["ferry"]
    minutes: int = Field(ge=1, le=120)


class Water(BaseModel):
    """A river or a lake, and its tributaries."""

    name: str = Field(max_length=20)
    kind: Kind
    source: Point
    crossing: Bridge | Ferry | None
    tributaries: list[Water] = Field(max_length=2)


Place = Annotated[str, Field(max_length=20, pattern="^[A-Za-z ]*$")]
Unit = Literal["celsius", "fahrenheit"]


class Weather(BaseModel):
    """The weather at a place."""

    place: Place
    unit: Unit


class Refused(BaseModel):
    """The pattern is malformed, so the server rejects the request."""

    name: str = Field(json_schema_extra={"pattern": "(a"})
