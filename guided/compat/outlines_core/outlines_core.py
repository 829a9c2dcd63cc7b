"""The same names again: outlines-core has an extension module with its own name, from which programs import."""

from guided.compat.outlines_core import json_schema
from guided.compat.outlines_core.index import Guide, Index
from guided.compat.outlines_core.vocabulary import Vocabulary

__all__ = ["Guide", "Index", "Vocabulary", "json_schema"]
