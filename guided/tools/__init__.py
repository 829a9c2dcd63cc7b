"""Tools that a model may call during generation."""

from guided.tools.calculator import CALCULATOR
from guided.tools.tool import Tool, ToolTokens

__all__ = ["CALCULATOR", "Tool", "ToolTokens"]
