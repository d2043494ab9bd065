"""Charts as SVG text for a report: horizontal bars, and lines over time. No scripts, no external resources.

Labels are input (names of queues and devices) and are escaped. Colours are those of the page's style sheet.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 860
BAR_HEIGHT: Final = 26
LABEL_WIDTH: Final = 300
LABEL_CHARACTERS: Final = 42
LINES_HEIGHT: Final = 260
MARGIN: Final = 56
LARGEST: Final = 1e300
"""Largest number that is drawn: the distance of two of them is still a number."""
MAX_DOTS: Final = 60
"""Dots of a line; more of them would hide it."""
SERIES_COLOURS: Final = 8
"""Classes s0 to s7 of the style sheet."""


def bars(items: Sequence[tuple[str, float]], caption: str) -> str:
    """Return a chart with one bar per item, in the given order, with its value at the end."""
    if not items:
        return _nothing(caption)
    largest = max(value for _, value in items) or 1.0
    room = WIDTH - LABEL_WIDTH - 80
    parts = []
    for index, (label, value) in enumerate(items):
        top = index * BAR_HEIGHT
        width = max(room * value / largest, 1.0)
        parts.append(
            f"<g><title>{escape(label)}: {number(value)}</title>"
            f'<text x="{LABEL_WIDTH - 8}" y="{top + 17}" class="label end">{escape(shortened(label))}</text>'
            f'<rect x="{LABEL_WIDTH}" y="{top + 4}" width="{width:.1f}" height="{BAR_HEIGHT - 8}" rx="2" class="s0"/>'
            f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{top + 17}" class="label">{number(value)}</text></g>'
        )
    return _svg(len(items) * BAR_HEIGHT, "".join(parts), caption)


def lines(series: Mapping[str, Sequence[tuple[float, float]]], caption: str, labels: tuple[str, str]) -> str:
    """Return a chart with one line per series of points (time, value); `labels` name the first and the last time.

    The scale includes zero: on one that begins at the smallest value, a small change looks like a large one.
    Points that no scale has room for (NaN, infinity) are left out.
    """
    series = {name: [point for point in one if abs(point[1]) <= LARGEST] for name, one in series.items()}
    points = [point for one in series.values() for point in one]
    if not points:
        return _nothing(caption)
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(0.0, *(y for _, y in points)), max(0.0, *(y for _, y in points))
    ticks = scale(low_y, high_y)
    bottom, top = ticks[0], ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = 0.5 if high_x == low_x else (x - low_x) / (high_x - low_x)
        up = (y - bottom) / (top - bottom)
        return MARGIN + across * (WIDTH - 2 * MARGIN), LINES_HEIGHT - 30 - up * (LINES_HEIGHT - 50)

    parts = []
    for tick in ticks:
        _, y = place(low_x, tick)
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f'<text x="{MARGIN - 8}" y="{y + 4:.1f}" class="label end">{number(tick)}</text>'
        )
    for index, (name, one) in enumerate(series.items()):
        colour = f"l{index % SERIES_COLOURS}"
        placed = [place(x, y) for x, y in sorted(one)]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        dots = ""
        if len(placed) <= MAX_DOTS:
            dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" class="{colour} dot"/>' for x, y in placed)
        parts.append(f'<g><title>{escape(name)}</title><polyline points="{text}" class="{colour}"/>{dots}</g>')
    parts.append(
        f'<text x="{MARGIN}" y="{LINES_HEIGHT - 8}" class="label">{escape(labels[0])}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{LINES_HEIGHT - 8}" class="label end">{escape(labels[1])}</text>'
    )
    return _svg(LINES_HEIGHT, "".join(parts), caption) + _legend(list(series))


def scale(low: float, high: float) -> list[float]:
    """Return three to seven round values from at most `low` to at least `high`."""
    if low == high:
        low, high = low - 1, high + 1
    step = 10.0 ** _exponent(high - low)
    for factor in (0.1, 0.2, 0.5, 1.0, 2.0):
        if (high - low) / (step * factor) <= 5:
            step *= factor
            break
    first = int(low // step)
    last = -int(-high // step)
    return [round(index * step, 10) for index in range(first, last + 1)]


def _exponent(value: float) -> int:
    exponent = 0
    while value >= 10:
        value /= 10
        exponent += 1
    while value < 1:
        value *= 10
        exponent -= 1
    return exponent


def number(value: float) -> str:
    """Return a value with thousands separators, and no more digits than it needs."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def shortened(text: str, characters: int = LABEL_CHARACTERS) -> str:
    """Return the text, or its beginning and end if it is too long."""
    if len(text) <= characters:
        return text
    half = (characters - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<span><i class="s{index % SERIES_COLOURS}"></i>{escape(shortened(name))}</span>'
        for index, name in enumerate(names)
    )
    return f'<p class="legend">{items}</p>'


def _svg(height: int, content: str, caption: str) -> str:
    return (
        f'<figure><figcaption>{escape(caption)}</figcaption><svg viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(caption)}">{content}</svg></figure>'
    )


def _nothing(caption: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption><p>There is nothing to show.</p></figure>"
