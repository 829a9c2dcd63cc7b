"""The front end for stored grammars: IR as bytes, and bytes as IR. See `container.py`."""

from guided.frontends.stored.container import FORMAT, Container, read_container, write_container
from guided.frontends.stored.fields import malformed
from guided.frontends.stored.tables import Tables, check_json

__all__ = ["FORMAT", "Container", "Tables", "check_json", "malformed", "read_container", "write_container"]
