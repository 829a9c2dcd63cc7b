"""guided inside vLLM: a structured-output backend, and a logits processor.

| | how to enable it |
|---|---|
| the backend (plugin.py) | `VLLM_PLUGINS=guided`, and `--structured-outputs-config '{"backend": "outlines"}'` |
| the logits processor (processor.py) | `--logits-processors guided.integrations.vllm:GuidedLogitsProcessor` |

Installing guided next to vLLM changes nothing by itself. Importing this module does not import vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guided.integrations.vllm.processor import GuidedLogitsProcessor

__all__ = ["GuidedLogitsProcessor"]


def __getattr__(name: str) -> Any:
    """Import `GuidedLogitsProcessor` on first access, because its module imports vLLM."""
    if name != "GuidedLogitsProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from guided.integrations.vllm.processor import GuidedLogitsProcessor
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "vllm":
            raise
        raise ImportError("vLLM is not installed: pip install 'guided-decoding[vllm]'", name="vllm") from None
    return GuidedLogitsProcessor
