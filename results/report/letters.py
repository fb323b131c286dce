"""How wide a text of a picture is, and as much of it as fits.

A picture is drawn before it is known which font shows it. What is counted with is DejaVu Sans, a wide one of the fonts
that systems have for their windows: where it fits, Segoe UI, Roboto and the like do.
"""

from __future__ import annotations

from typing import Final

from splitbrain.results.text import visible

_FIRST: Final = 32
PLAIN: Final = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
"""Widths of the printable ASCII characters, from the space on, in thousandths of the size of the font."""

BOLD: Final = (
    *(348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365),
    *(696, 696, 696, 696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580),
    *(1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850),
    *(733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500),
    *(500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687),
    *(716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838),
)
"""The same of bold ones."""

MONO: Final = 602
"""Width of every character of a font for code."""

OTHER: Final = 1100
"""Width of any other character, about: of a Cyrillic or a Chinese one, an arrow, an ellipsis."""


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is, in units of the picture; `size` is that of its font."""
    return _thousandths(text, bold) * size / 1000


def cut(text: str, room: float, size: float, *, bold: bool = False, least: int = 2) -> str:
    """As much of a text as fits into `room`, with "…" for what does not; "" if fewer than `least` characters do."""
    text = visible(text)
    if _thousandths(text, bold) * size <= room * 1000:
        return text
    left = room * 1000 - OTHER * size
    for place, letter in enumerate(text):
        left -= _thousandths(letter, bold) * size
        if left < 0:
            return f"{text[:place]}…" if place + 1 >= least else ""
    return f"{text}…"


def cut_code(text: str, room: float, size: float) -> str:
    """The same of a font whose letters are all equally wide, as DejaVu Sans Mono."""
    text, most = visible(text), int(room * 1000 // (MONO * size))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _thousandths(text: str, bold: bool) -> int:
    widths = BOLD if bold else PLAIN
    return sum(widths[ord(each) - _FIRST] if " " <= each <= "~" else OTHER for each in text)
