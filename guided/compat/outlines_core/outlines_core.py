"""Re-exports the package's names. outlines-core has an extension module of this name, from which some programs
import."""

from guided.compat.outlines_core import json_schema
from guided.compat.outlines_core.index import Guide, Index
from guided.compat.outlines_core.vocabulary import Vocabulary

__all__ = ["Guide", "Index", "Vocabulary", "json_schema"]
