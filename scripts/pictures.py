"""Draws the pictures of the documents as SVG. `python scripts/pictures.py` writes them into docs/img/.

Each picture is a list of boxes, arrows and words on a grid, so it can be changed by hand. A test compares the files
with the output of this script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

IMG = Path(__file__).resolve().parent.parent / "docs" / "img"
INK, SOFT, FILL, GOOD, BAD = "#1f2933", "#7b8794", "#eef2ff", "#d3f2dd", "#fbdcdc"
FONT = "font-family='system-ui, sans-serif'"
MONO = "font-family='ui-monospace, monospace'"


@dataclass
class Picture:
    """A canvas of a given size, with the elements drawn so far."""

    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, w: int, h: int, *lines: str, fill: str = FILL, mono: bool = False) -> None:
        """Add a rounded box with centred lines of text."""
        self.parts.append(f"<rect x='{x}' y='{y}' width='{w}' height='{h}' rx='6' fill='{fill}' stroke='{INK}'/>")
        for number, line in enumerate(lines):
            middle = y + h / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            self.words(x + w / 2, middle, line, anchor="middle", mono=mono)

    def words(
        self, x: float, y: float, text: str, *, anchor: str = "start", mono: bool = False, soft: bool = False
    ) -> None:
        """Add a line of text."""
        self.parts.append(
            f"<text x='{x:g}' y='{y:g}' font-size='13' text-anchor='{anchor}' fill='{SOFT if soft else INK}' "
            f"xml:space='preserve' {MONO if mono else FONT}>{escape(text)}</text>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, label: str = "", *, above: int = 6) -> None:
        """Add a straight arrow, with a label above its middle."""
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{INK}' stroke-width='1.4' "
            "marker-end='url(#tip)'/>"
        )
        if label:
            self.words((x1 + x2) / 2, (y1 + y2) / 2 - above, label, anchor="middle", mono=True)

    def circle(self, x: int, y: int, text: str, *, accepts: bool = False, fill: str = FILL) -> None:
        """Add a state. A second ring marks a state in which the output may end."""
        self.parts.append(f"<circle cx='{x}' cy='{y}' r='20' fill='{fill}' stroke='{INK}'/>")
        if accepts:
            self.parts.append(f"<circle cx='{x}' cy='{y}' r='16' fill='none' stroke='{INK}'/>")
        self.words(x, y + 5, text, anchor="middle")

    def path(self, d: str) -> None:
        """Add a curved arrow."""
        self.parts.append(f"<path d='{d}' fill='none' stroke='{INK}' stroke-width='1.4' marker-end='url(#tip)'/>")

    def svg(self) -> str:
        """The text of the SVG file."""
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
            f"width='{self.width}' height='{self.height}'>"
        )
        tip = (
            "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
            f"<path d='M0 0L8 4L0 8z' fill='{INK}'/></marker></defs>"
        )
        ground = f"<rect width='{self.width}' height='{self.height}' rx='8' fill='white'/>"
        return "\n".join([head, tip, ground, *self.parts, "</svg>", ""])


def loop() -> Picture:
    """The decode loop."""
    p = Picture(760, 200)
    p.box(20, 20, 120, 44, "specification")
    p.arrow(140, 42, 186, 42)
    p.box(190, 20, 120, 44, "automaton")
    p.arrow(250, 64, 250, 112, "")
    p.words(258, 92, "state 17", soft=True)
    p.box(190, 116, 120, 44, "bitmask row")
    p.box(20, 116, 120, 44, "model")
    p.arrow(310, 138, 366, 138)
    p.box(370, 116, 120, 44, "masked logits")
    p.arrow(490, 138, 546, 138)
    p.box(550, 116, 80, 44, "token")
    p.path("M 80 160 C 80 200, 430 200, 430 164")
    p.words(60, 190, "logits", soft=True)
    p.path("M 590 116 C 590 30, 470 42, 314 42")
    p.words(600, 70, "the token leads to", soft=True)
    p.words(600, 86, "the next state", soft=True)
    return p


def states() -> Picture:
    """The automaton of (ab)+."""
    p = Picture(560, 150)
    p.arrow(10, 80, 56, 80)
    p.circle(80, 80, "0")
    p.arrow(100, 80, 236, 80, "a")
    p.circle(260, 80, "1")
    p.arrow(280, 80, 416, 80, "b")
    p.circle(440, 80, "2", accepts=True)
    p.path("M 432 62 C 400 20, 300 20, 270 58")
    p.words(350, 24, "a", anchor="middle", mono=True)
    p.words(80, 130, "allowed: a, ab", anchor="middle", soft=True)
    p.words(260, 130, "allowed: b", anchor="middle", soft=True)
    p.words(440, 130, "allowed: a, ab, end", anchor="middle", soft=True)
    return p


def stack() -> Picture:
    """The text of nested arrays, and the open frames."""
    p = Picture(700, 190)
    p.words(20, 30, "written so far:   [ 7 , [ 1", mono=True)
    for level, (x, name) in enumerate([(30, "value"), (180, "array"), (330, "array"), (480, "integer")]):
        p.box(x, 70, 110, 44, name, fill=FILL if level < 3 else GOOD)
        if level:
            p.arrow(x, 92, x - 36, 92)
    p.words(30, 140, "outermost frame", soft=True)
    p.words(180, 140, "after one item", soft=True)
    p.words(330, 140, "in its first item", soft=True)
    p.words(480, 140, "the rule that reads now", soft=True)
    p.words(30, 170, "An arrow leads to the configuration in which reading goes on when the frame ends.", soft=True)
    return p


def boundaries() -> Picture:
    """One token that extends past the end of a rule."""
    p = Picture(700, 170)
    p.words(20, 28, 'the token  ": tr  written after  {"paid')
    cells = [('"', GOOD), (":", FILL), (" ", FILL), ("t", FILL), ("r", FILL)]
    for number, (mark, fill) in enumerate(cells):
        p.box(30 + 60 * number, 48, 50, 40, mark if mark != " " else "space", fill=fill, mono=True)
    p.words(55, 112, "ends the name", anchor="middle", soft=True)
    p.words(230, 112, "remainder: read by the caller", anchor="middle", soft=True)
    p.words(30, 150, "The token table of the name stores the remainder. Filling a row asks the caller.")
    return p


def budget() -> Picture:
    """Distances to the end, and the tokens that a budget of 3 leaves."""
    p = Picture(720, 170)
    p.arrow(10, 70, 46, 70)
    for x, name, distance, accepts in [
        (70, "0", 3, False),
        (230, "1", 2, False),
        (390, "2", 1, True),
        (550, "3", 3, False),
    ]:
        p.circle(x, 70, name, accepts=bool(accepts), fill=BAD if name == "3" else FILL)
        p.words(x, 120, f"{distance} to the end", anchor="middle", soft=True)
    for x, mark in [(90, "["), (250, "]"), (410, ",")]:
        p.arrow(x, 70, x + 116, 70, mark)
    p.words(
        20,
        155,
        "With 3 tokens left at state 2, the comma is removed: it leaves 2, and 3 would be needed.",
    )
    return p


def seen() -> Picture:
    """The set of used values of an array with uniqueItems."""
    p = Picture(720, 170)
    p.words(20, 30, 'written so far:   ["tea", "sugar", "', mono=True)
    p.box(20, 54, 180, 60, "seen set", '{"tea", "sugar"}')
    p.words(240, 60, "still possible:")
    p.box(240, 74, 110, 40, "coffee", fill=GOOD, mono=True)
    p.box(370, 74, 110, 40, "tea", fill=BAD, mono=True)
    p.box(500, 74, 110, 40, "sugar", fill=BAD, mono=True)
    p.words(
        20,
        150,
        "A thread that can only end in a value of its seen set is dropped at once.",
    )
    return p


def recipe() -> Picture:
    """A mask recipe: pointers to shared rows, and ids."""
    p = Picture(720, 230)
    p.words(20, 28, "states")
    for number, name in enumerate(["17", "18", "42"]):
        p.box(20, 44 + 54 * number, 60, 40, name)
    p.words(150, 28, "recipes")
    for number, text in enumerate(["rows: A      ids: 11", "rows: A      ids: 11, 29", "rows: A, B   ids: 7"]):
        p.box(150, 44 + 54 * number, 220, 40, text, mono=True)
        p.arrow(80, 64 + 54 * number, 146, 64 + 54 * number)
    p.words(450, 28, "rows that are stored once")
    p.box(450, 60, 250, 40, "A  11011111 11110111 ...", fill=GOOD, mono=True)
    p.box(450, 140, 250, 40, "B  00000000 00001000 ...", fill=GOOD, mono=True)
    for y in (64, 118, 172):
        p.arrow(370, y, 446, 82)
    p.arrow(370, 176, 446, 160)
    p.words(20, 218, "To fill a row: copy A, OR the other rows, set the bits of the ids.", soft=True)
    return p


PICTURES = {f.__name__: f for f in (loop, states, stack, boundaries, budget, seen, recipe)}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMG / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
