"""Changes the code of a chat template so that it charges for its work (render_budget.py), and tags its literals.

In: Jinja's syntax tree. Out: Python code, which Jinja compiles.

Each block of statements is charged for its nodes when it is entered, so a branch that is not taken costs nothing.
Comparisons, slices and loops are also charged for the data that they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.visitor import NodeTransformer

from guided.chat.render_budget import NODE, STEP

__all__ = ["ChargeTransformer", "TaggingCodeGenerator"]

_WEIGHTS: Final = {nodes.Macro: 20, nodes.CallBlock: 20, nodes.NSRef: 6}
"""Class of nodes -> how many other nodes take as long (1 for other classes)."""


class ChargeTransformer(NodeTransformer):
    """Adds charges to loops, comparisons, slices and dictionary keys."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        """Charge for the items, and for the condition of each item."""
        self.generic_visit(node)
        amount = STEP if node.test is None else STEP + _compute_block_cost([node.test])
        node.iter = _apply_filter(node.iter, "charge_items", [nodes.Const(amount)])
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Charge for the operands, except the first."""
        self.generic_visit(node)  # the first operand is free: a comparison reads at most as much of it as of the others
        for operand in node.ops:
            operand.expr = _apply_filter(operand.expr, "charge_all")
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """Charge for a slice, or for the key."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _apply_filter(node.node, "charge_items")
        else:
            node.arg = _apply_filter(node.arg, "charge_all")
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        """Charge for the key."""
        self.generic_visit(node)
        node.key = _apply_filter(node.key, "charge_all")
        return node


def _apply_filter(node: nodes.Node, name: str, arguments: Sequence[nodes.Expr] = ()) -> nodes.Expr:
    assert isinstance(node, nodes.Expr)
    if isinstance(node, nodes.Const | nodes.TemplateData):
        return node
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


def _compute_block_cost(block: Iterable[nodes.Node]) -> int:
    """The charge for the nodes of a block, without the blocks inside it, which are charged when they are entered."""
    pending, count = list(block), 1
    while pending:
        node = pending.pop()
        count += _WEIGHTS.get(type(node), 1)
        pending += node.iter_child_nodes(exclude=("body", "else_"))
    return NODE * count


class TaggingCodeGenerator(CodeGenerator):
    """Makes literals `TaggedText`, and charges for blocks and output."""

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        """Charge for the nodes of a block when it is entered."""
        block = list(nodes)
        self.writeline(f"environment.charge({_compute_block_cost(block)})")
        super().blockvisit(block, frame)

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        """Tag a text."""
        if isinstance(node.value, str):
            self.write(f"environment.tag_text({str(node.value)!r})")
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:
        """Tag a text."""
        self.write(f"environment.tag_text({str(node.data)!r})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """Look up a constant key without tags."""
        if isinstance(node.arg, nodes.Const):  # a key is not output, so it needs no tags
            self.write("environment.getitem(")
            self.visit(node.node, frame)
            self.write(f", {node.arg.value!r})")
        else:
            super().visit_Getitem(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """Join the texts of the operands."""
        self.write("environment.concat(map(environment.text_of, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write(")))")

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return f"environment.tag_text({''.join(map(str, group))!r})"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("environment.text_of(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(")")
