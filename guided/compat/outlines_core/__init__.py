"""The API of outlines-core 0.2.14, implemented with guided: `import guided.compat.outlines_core as outlines_core`.

`docs/migration.md` lists the differences and the reasons. The subpackage `kernels`, which fills and
applies bitmasks, is not imported here.
"""

from guided.compat.outlines_core import json_schema
from guided.compat.outlines_core.index import Guide, Index
from guided.compat.outlines_core.vocabulary import Vocabulary

__all__ = ["Guide", "Index", "Vocabulary", "json_schema"]
