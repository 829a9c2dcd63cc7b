"""Generates structured outputs offline with vLLM and guided: python examples/vllm_offline.py MODEL

The outputs are a record, a date and a tool call. Each is complete within 48 tokens. The script needs vLLM 0.32 or 0.33.
docs/guides/vllm.md explains how to serve a model with guided.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["VLLM_PLUGINS"] = "guided"  # set before vLLM is imported, because its worker processes need it, too

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
        "born": {"type": "integer", "minimum": 1800, "maximum": 2020},
        "languages": {"type": "array", "items": {"enum": ["en", "fr", "de"]}, "uniqueItems": True, "minItems": 1},
    },
    "required": ["name", "born", "languages"],
}
CALL = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call>"],
        "tags": [{"begin": "<call>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</call>"}],
        "at_least_one": True,
        "stop_after_first": True,
    },
}


def main() -> None:
    """Send three requests in one batch, and print the answers."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    llm = LLM(sys.argv[1], structured_outputs_config={"backend": "outlines"}, max_model_len=1024, enforce_eager=True)
    requests = {
        "Who was Ada Lovelace?": StructuredOutputsParams(json=PERSON),
        "When was the Moon landing?": StructuredOutputsParams(regex=r"[A-Z][a-z]+ \d{1,2}, \d{4}"),
        "Store Ada Lovelace.": StructuredOutputsParams(structural_tag=json.dumps(CALL)),
    }
    params = [
        SamplingParams(max_tokens=48, temperature=0.7, seed=1, structured_outputs=each) for each in requests.values()
    ]
    outputs = llm.chat([[{"role": "user", "content": question}] for question in requests], params)
    for question, output in zip(requests, outputs, strict=True):
        answer = output.outputs[0]
        print(f"{question}\n  {answer.text}  ({len(answer.token_ids)} tokens, {answer.finish_reason})")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
