"""What a model may call while it writes."""

from guided.tools.calculator import CALCULATOR
from guided.tools.tool import Tool, ToolTokens

__all__ = ["CALCULATOR", "Tool", "ToolTokens"]
