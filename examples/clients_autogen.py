"""AutoGen against `guided serve`: an object, a stream, an agent that calls a tool, and an error.

pip install autogen-agentchat 'autogen-ext[openai]'; then, while a server runs: python examples/clients_autogen.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import asyncio
import json

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core import CancellationToken
from autogen_core.models import ModelFamily, ModelInfo, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from clients_types import KEY, MODEL, TOKENS, URL, Refused, Unit, Water
from openai import BadRequestError

able = ModelInfo(
    vision=False, function_calling=True, json_output=True, structured_output=True, family=ModelFamily.UNKNOWN
)
model = OpenAIChatCompletionClient(
    model=MODEL, base_url=URL, api_key=KEY, max_tokens=TOKENS, max_retries=0, model_info=able
)


async def weather(place: str, unit: Unit) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


async def main() -> None:
    """Send one request of each kind."""
    geographer = AssistantAgent("geographer", model, output_content_type=Water)
    answer = await geographer.run(task="Tell me of the Nile.")
    print(f"object: {answer.messages[-1].content!r}")

    geographer = AssistantAgent("geographer", model, output_content_type=Water, model_client_stream=True)
    events = [event async for event in geographer.run_stream(task="Tell me of a lake.")]
    pieces = [event.content for event in events if isinstance(event, ModelClientStreamingChunkEvent)]
    assert len(pieces) > 1
    print(f"stream: {Water.model_validate_json(''.join(pieces))!r}")

    # The model must call a tool, which checks its arguments.
    tool = FunctionTool(weather, "Say what the weather is at a place.")
    question = UserMessage(content="What is the weather in Cairo?", source="user")
    answer = await model.create([question], tools=[tool], tool_choice="required")
    results = [await tool.run_json(json.loads(call.arguments), CancellationToken()) for call in answer.content]
    print(f"calls: {[call.name for call in answer.content]!r} {results!r}")

    try:
        await model.create([UserMessage(content="What?", source="user")], json_output=Refused)
    except BadRequestError as error:
        print(f"refused: {error}")
    await model.close()


asyncio.run(main())
