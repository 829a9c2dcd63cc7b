"""Requests constrained answers from an SGLang server whose grammar backend is guided.

pip install guided-decoding[sglang] openai
python -m sglang.launch_server --model-path MODEL --grammar-backend guided
python examples/sglang_client.py http://127.0.0.1:30000/v1
"""

from __future__ import annotations

import json
import sys
from typing import Any

import openai

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
GRAMMAR = 'root ::= "(" n " + " n ")"\nn ::= [0-9]{1,3}'  # GBNF or EBNF; without `::=`, it would be read as Lark


def main(url: str) -> tuple[Any, str]:
    """Print and return an answer under a schema, and an answer under a grammar."""
    with openai.OpenAI(base_url=url, api_key="none") as client:
        model = client.models.list().data[0].id

        def ask(text: str, **options: Any) -> str:
            messages: Any = [{"role": "user", "content": text}]
            answer = client.chat.completions.create(
                model=model, messages=messages, max_tokens=100, temperature=0, **options
            )
            return answer.choices[0].message.content or ""

        schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
        person = ask("Ada is 36 years old.", response_format=schema)
        total = ask("A sum of two numbers.", extra_body={"ebnf": GRAMMAR})
    print(person, total, sep="\n")
    return json.loads(person), total


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
