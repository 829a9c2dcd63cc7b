"""instructor against `guided serve`: an object, a stream of partial objects, tool calls, and an error.

pip install instructor; then, while a server runs: python examples/clients_instructor.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import instructor
from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from instructor.core import InstructorRetryException
from openai import BadRequestError, OpenAI

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

# The model writes any number of objects. Each is yielded as soon as it is complete.
several = client.chat.completions.create_iterable(
    **ask, messages=question("What is the weather in Cairo and in Khartoum?"), response_model=Weather
)
print(f"several: {list(several)!r}")

try:
    client.chat.completions.create(**ask, messages=question("What?"), response_model=Refused)
except InstructorRetryException as error:
    refusal = error.__cause__
    while refusal is not None and not isinstance(refusal, BadRequestError):
        refusal = refusal.__cause__
    print(f"refused: {refusal}")
except BadRequestError as error:
    print(f"refused: {error}")
