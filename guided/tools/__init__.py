"""Tools that a model may call during generation."""

from guided.tools.calculator import CALCULATOR
from guided.tools.function import FunctionTool, function_tool
from guided.tools.tool import Tool, ToolTokens

__all__ = ["CALCULATOR", "FunctionTool", "Tool", "ToolTokens", "function_tool"]
