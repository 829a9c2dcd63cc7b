"""DSPy against `guided serve`: a signature whose output is an object, tool calls, and an error.

pip install dspy; then, while a server runs: python examples/clients_dspy.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

import dspy
from clients_types import KEY, MODEL, TOKENS, URL, Kind, Refused, Water
from dspy.lm15 import AccessPolicy, ModelSupport, OpenAIChatCompat, ProviderDefinition, register_provider

# DSPy sends a schema only if it knows that the model supports schemas. This registers the server's model.
register_provider(
    ProviderDefinition.chat(AccessPolicy(provider="guided", env_keys=(), base_url=URL), compat=OpenAIChatCompat()),
    supports=ModelSupport(function_calling=True, response_schema=True),
)
model = dspy.LM(f"guided/{MODEL}", api_base=URL, api_key=KEY, max_tokens=TOKENS, cache=False, num_retries=0)
dspy.configure(lm=model, adapter=dspy.JSONAdapter())


class Describe(dspy.Signature):
    """Describe a piece of water."""

    question: str = dspy.InputField()
    kind: Kind = dspy.OutputField()
    water: Water = dspy.OutputField()


class Fail(dspy.Signature):
    """Give what cannot be given."""

    question: str = dspy.InputField()
    refused: Refused = dspy.OutputField()


class Call(dspy.Signature):
    """Call a tool."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


def weather(place: str, unit: str) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


answer = dspy.Predict(Describe)(question="Tell me of the Nile.")
print(f"object: {answer.kind!r} {answer.water!r}")

call = dspy.Predict(Call, tool_choice="required")  # otherwise, the model may answer with text
answer = call(question="What is the weather in Cairo?", tools=[dspy.Tool(weather)])
print(f"calls: {[call.name for call in answer.calls.tool_calls]!r}")

try:
    dspy.Predict(Fail)(question="What?")
except dspy.LMError as error:
    print(f"refused: {error}")
