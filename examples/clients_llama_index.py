"""LlamaIndex against `guided serve`: an object, a stream of partial objects, tool calls, and an error.

pip install llama-index-llms-openai-like; then, while a server runs: python examples/clients_llama_index.py
It imports clients_types.py, which must be in the same folder.
"""

from __future__ import annotations

from clients_types import KEY, MODEL, TOKENS, URL, Refused, Water, Weather
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from openai import BadRequestError

model = OpenAILike(
    model=MODEL,
    api_base=URL,
    api_key=KEY,
    context_window=8192,
    is_chat_model=True,
    is_function_calling_model=True,
    should_use_structured_outputs=True,  # send the schema in response_format
    max_tokens=TOKENS,
    max_retries=0,
)
prompt = PromptTemplate("Tell me of {name}.")

print(f"object: {model.structured_predict(Water, prompt, name='the Nile')!r}")
partials = list(model.stream_structured_predict(Water, prompt, name="a lake"))
assert len(partials) > 1
print(f"stream: {partials[-1]!r}")

# Send the schema as the parameters of a function that the model must call. In this mode, LlamaIndex does not support
# recursive classes.
by_calls = model.model_copy(update={"should_use_structured_outputs": False})
print(f"function: {by_calls.structured_predict(Weather, prompt, name='the weather in Cairo')!r}")


def weather(place: str, unit: str) -> str:
    """Return the weather at a place."""
    return f"It is warm in {place}."


tools = [FunctionTool.from_defaults(weather, fn_schema=Weather)]
answer = model.chat_with_tools(tools, "What is the weather in Cairo?", tool_required=True)
calls = model.get_tool_calls_from_response(answer)
print(f"calls: {[Weather.model_validate(call.tool_kwargs) for call in calls]!r}")

# Send the result of the tool back to the model, which answers.
results = [
    ChatMessage(role="tool", content="It is warm.", additional_kwargs={"tool_call_id": call.tool_id}) for call in calls
]
talk = [ChatMessage(content="What is the weather in Cairo?"), answer.message, *results]
a_word = {"extra_body": {"regex": "[A-Z][a-z]{2,9}"}}
print(f"answer: {model.chat(talk, **a_word).message.content}")

name = model.chat([ChatMessage(content="Name a river.")], **a_word)
print(f"text: {name.message.content}")

try:
    model.structured_predict(Refused, prompt, name="nothing")
except BadRequestError as error:
    print(f"refused: {error}")
