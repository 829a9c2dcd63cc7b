"""OpenAI's Agents SDK against `guided serve`: an object, a stream, tool calls, and an error, over the chat completions
and the responses API.

pip install openai-agents; then, while a server runs: python examples/clients_openai_agents.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import asyncio

from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from clients_types import KEY, MODEL, TOKENS, URL, Place, Refused, Unit, Water, Weather
from openai import AsyncOpenAI, BadRequestError
from pydantic import BaseModel

server = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
local = RunConfig(tracing_disabled=True)  # otherwise, traces go to OpenAI


class Report(BaseModel):
    """The weather."""

    warm: bool


@function_tool
def weather(place: Place, unit: Unit) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


async def ask(name: str, model: Model) -> None:
    """Send one request of each kind."""
    short = ModelSettings(max_tokens=TOKENS)
    agent = Agent("Geographer", model=model, model_settings=short, output_type=Water)
    answer = await Runner.run(agent, "Tell me of the Nile.", run_config=local)
    print(f"object by {name}: {answer.final_output!r}")

    stream = Runner.run_streamed(agent, "Tell me of a lake.", run_config=local)
    events = [event.data.type async for event in stream.stream_events() if event.type == "raw_response_event"]
    assert events.count("response.output_text.delta") > 1
    print(f"stream by {name}: {stream.final_output!r}")

    # The first agent must call the tool, and stops with its result. The second agent reads the result.
    must = ModelSettings(max_tokens=TOKENS, tool_choice="weather", parallel_tool_calls=False)
    ends = {"tools": [weather], "tool_use_behavior": "stop_on_first_tool"}
    agent = Agent("Caller", model=model, model_settings=must, **ends)
    answer = await Runner.run(agent, "What is the weather in Cairo?", run_config=local)
    [call] = [item.raw_item for item in answer.new_items if item.type == "tool_call_item"]
    print(f"calls by {name}: {Weather.model_validate_json(call.arguments)!r}")

    agent = Agent("Reporter", model=model, model_settings=short, output_type=Report)
    answer = await Runner.run(agent, answer.to_input_list(), run_config=local)
    print(f"report by {name}: {answer.final_output!r}")

    try:
        agent = Agent("Nobody", model=model, output_type=Refused)
        await Runner.run(agent, "What?", run_config=local)
    except BadRequestError as error:
        print(f"refused by {name}: {error}")


async def main() -> None:
    """Send all requests over both APIs."""
    await ask("chat", OpenAIChatCompletionsModel(MODEL, server))
    await ask("responses", OpenAIResponsesModel(MODEL, server))


asyncio.run(main())
