"""instructor against `guided serve`: an object, a stream of partial objects, tool calls, several objects, and an error.

pip install instructor; then, while a server runs: python examples/clients_instructor.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import instructor
from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from instructor.core import InstructorRetryException
from openai import BadRequestError, OpenAI
from pydantic import BaseModel, Field

server = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
ask = {"model": MODEL, "max_tokens": TOKENS, "seed": 3, "max_retries": 0}  # no answer needs a retry


def question(text: str) -> list[dict[str, str]]:
    """A conversation that consists of one message."""
    return [{"role": "user", "content": text}]


# The mode JSON_SCHEMA sends the schema unchanged. The mode TOOLS sends it as the parameters of a function.
for name, mode in {"object": instructor.Mode.JSON_SCHEMA, "calls": instructor.Mode.TOOLS}.items():
    client = instructor.from_openai(server, mode=mode)
    water = client.chat.completions.create(**ask, messages=question("Tell me of the Nile."), response_model=Water)
    print(f"{name}: {water!r}")

client = instructor.from_openai(server, mode=instructor.Mode.JSON_SCHEMA)
partials = list(
    client.chat.completions.create_partial(
        **ask,
        messages=question("Tell me of a lake."),
        response_model=Water,
        strict=False,  # convert strings to enumeration members
    )
)
assert len(partials) > 1
print(f"stream: {partials[-1]!r}")


# `create_iterable` is no alternative: its schema does not require the list, so the model may write {}, which instructor
# reads as one of the objects.
class Forecast(BaseModel):
    """The weather in several places."""

    places: list[Weather] = Field(min_length=1, max_length=4)


forecast = client.chat.completions.create(
    **ask, messages=question("What is the weather in Cairo and in Khartoum?"), response_model=Forecast
)
print(f"several: {forecast.places!r}")

try:
    client.chat.completions.create(**ask, messages=question("What?"), response_model=Refused)
except InstructorRetryException as error:
    refusal = error.__cause__
    while refusal is not None and not isinstance(refusal, BadRequestError):
        refusal = refusal.__cause__
    print(f"refused: {refusal}")
except BadRequestError as error:
    print(f"refused: {error}")
