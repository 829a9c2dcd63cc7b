"""A program for xgrammar, with one import changed: `import guided.compat.xgrammar as xgr`.

    python examples/compat_xgrammar.py

It needs no model: the logits are random, but the answer still satisfies the schema.
"""

from __future__ import annotations

import torch

import guided.compat.xgrammar as xgr

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Oslo", "Rome", "Quito"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "days"],
}


def answer(seed: int) -> str:
    """Generate one answer from random logits."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgr.TokenizerInfo(tokens)
    compiled = xgr.GrammarCompiler(info).compile_json_schema(SCHEMA, any_whitespace=False)
    matcher = xgr.GrammarMatcher(compiled)
    bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)
    generator = torch.Generator().manual_seed(seed)
    written = b""
    while not matcher.is_terminated():
        forced = matcher.find_jump_forward_string()  # forced text needs no logits
        if forced:
            matcher.accept_string(forced)
            written += forced.encode()
            continue
        logits = torch.randn(1, info.vocab_size, generator=generator)
        matcher.fill_next_token_bitmask(bitmask)
        xgr.apply_token_bitmask_inplace(logits, bitmask)
        token = int(logits.argmax())
        matcher.accept_token(token)
        written += b"" if token in info.stop_token_ids else tokens[token]
    return written.decode()


if __name__ == "__main__":
    for seed in range(3):
        print(answer(seed))
