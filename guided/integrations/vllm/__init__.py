"""guided inside vLLM: a backend of structured outputs, and a logits processor.

| | how it is asked for |
|---|---|
| the backend (plugin.py) | `VLLM_PLUGINS=guided`, and `--structured-outputs-config '{"backend": "outlines"}'` |
| the logits processor (processor.py) | `--logits-processors guided.integrations.vllm:GuidedLogitsProcessor` |

To install guided beside vLLM changes nothing. Importing this imports nothing of vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guided.integrations.vllm.processor import GuidedLogitsProcessor

__all__ = ["GuidedLogitsProcessor"]


def __getattr__(name: str) -> Any:
    """The class of vLLM's runners, made when it is asked for."""
    if name != "GuidedLogitsProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from guided.integrations.vllm.processor import GuidedLogitsProcessor
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "vllm":
            raise
        raise ImportError("vLLM is not installed: pip install 'guided-decoding[vllm]'", name="vllm") from None
    return GuidedLogitsProcessor
