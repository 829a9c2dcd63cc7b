"""A program for llguidance that runs on guided. Only the import differs.

Prints a mask, forced text, a draft, an error and captures. The tokenizer has one token for each byte.

    python examples/compat_llguidance.py                 on guided
    python examples/compat_llguidance.py --llguidance    on llguidance itself, if it is installed
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

GRAMMAR = r"""
start: "Size " size " of " colour
size[capture]: /[0-9]{1,2}/
colour[capture]: "red" | "green"
"""


def run(llguidance: Any) -> list[str]:
    """Run the program, and return the lines to print."""
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, GRAMMAR, log_level=0)
    out = [f"forced at first: {matcher.compute_ff_bytes()!r}"]
    matcher.consume_tokens(matcher.compute_ff_tokens())
    bias = matcher.compute_logit_bias()
    out.append(f"then allowed: {tokenizer.decode_str([token for token in range(tokenizer.vocab_size) if bias[token]])}")
    draft = tokenizer.tokenize_str("42 of blue")
    out.append(f"of the draft '42 of blue', {matcher.validate_tokens(draft)} tokens are allowed")
    failed = matcher.deep_copy()
    out.append(f"read all of it: {failed.consume_tokens(draft)}, an error: {failed.is_error()}")
    matcher.consume_tokens(tokenizer.tokenize_str("42 of red"))
    out.append(f"{matcher.get_captures()}, stopped: {matcher.stop_reason()}")
    return out


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--llguidance", action="store_true", help="use llguidance itself")
    name = "llguidance" if parser.parse_args().llguidance else "guided.compat.llguidance"
    print("\n".join(run(import_module(name))))


if __name__ == "__main__":
    main()
