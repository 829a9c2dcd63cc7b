"""pydantic-ai against `guided serve`: an object, a stream of partial objects, tool calls, and an error.

pip install 'pydantic-ai-slim[openai]'; then, while a server runs: python examples/clients_pydantic_ai.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import asyncio

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

server = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=server))
ask = {"model": model, "model_settings": {"max_tokens": TOKENS}, "retries": 0}  # no answer needs a retry


async def main() -> None:
    """Send one request of each kind."""
    # Send the schema once as response_format, and once as the parameters of a function that the model must call.
    for name, output in {"object": NativeOutput(Water), "calls": ToolOutput(Water)}.items():
        answer = await Agent(**ask, output_type=output).run("Tell me of the Nile.")
        print(f"{name}: {answer.output!r}")

    async with Agent(**ask, output_type=NativeOutput(Water)).run_stream("Tell me of a lake.") as stream:
        partials = [partial async for partial in stream.stream_output(debounce_by=None)]
    assert len(partials) > 1
    print(f"stream: {partials[-1]!r}")

    # For a union, each type has a function, and the model calls one of them.
    either = await Agent(**ask, output_type=[ToolOutput(Water), ToolOutput(Weather)]).run("A river, or its weather?")
    print(f"either: {either.output!r}")

    try:
        await Agent(**ask, output_type=NativeOutput(Refused)).run("What?")
    except ModelHTTPError as error:
        print(f"refused: {error}")


asyncio.run(main())
