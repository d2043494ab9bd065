"""Pictures of what the programs saw: a grid whose columns are points in time and whose rows are places.

They are drawn from ours.json and nothing else, as SVG with colours for light and dark pages and a ground of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final

from attrs import frozen

from tests.interop.kinds.scenario import Seen

TOKEN_WIDTH: Final = 30
TOKEN_HEIGHT: Final = 22
GAP: Final = 5
PADDING: Final = 10
ROW_GAP: Final = 14
LETTER_WIDTH: Final = 8.2
"""Of the font below, at the most; a label that is wider than its column would be cut off."""

STYLE: Final = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .head { font-weight: 600; }
  .ground { fill: #ffffff; stroke: #d1d9e0; }
  .line { stroke: #d1d9e0; }
  .token { stroke-width: 1.2; }
  .k0 rect { fill: #ddf4ff; stroke: #0969da; }
  .k1 rect { fill: #fff1c2; stroke: #9a6700; }
  .k2 rect { fill: #dafbe1; stroke: #1a7f37; }
  .k3 rect { fill: #fbdff5; stroke: #a0398c; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ground { fill: #161b22; stroke: #3d444d; }
    .line { stroke: #3d444d; }
    .k0 rect { fill: #0c2d52; stroke: #58a6ff; }
    .k1 rect { fill: #3b2b06; stroke: #d29922; }
    .k2 rect { fill: #0f3a1d; stroke: #3fb950; }
    .k3 rect { fill: #46183f; stroke: #db61c4; }
  }
  .gone rect { fill: none; stroke-dasharray: 3 2; }
  .gone text { text-decoration: line-through; }
"""


@frozen
class Token:
    """A message in a picture."""

    body: str
    colour: int = 0
    is_gone: bool = False


@frozen
class Row:
    """A place: what is there at each point in time."""

    label: str
    cells: Sequence[Sequence[Token]]


@frozen(kw_only=True)
class Picture:
    """A grid with a head for each column."""

    title: str
    """Read to those who do not see the picture."""
    columns: Sequence[str]
    rows: Sequence[Row]
    is_stacked: bool = False
    """Messages of a cell are one below the other."""


def svg(picture: Picture) -> str:
    """Return the text of the file."""
    label_width = _width([row.label for row in picture.rows]) + PADDING
    widths = [
        max(_width([head]), *(_size(picture, row.cells[number])[0] for row in picture.rows)) + 2 * PADDING
        for number, head in enumerate(picture.columns)
    ]
    heights = [max(_size(picture, cell)[1] for cell in row.cells) + ROW_GAP for row in picture.rows]
    width, head_height = label_width + sum(widths) + PADDING, 30
    height = head_height + sum(heights) + PADDING // 2
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(picture.title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="6"/>',
    ]
    left = label_width
    for head, column in zip(picture.columns, widths, strict=True):
        parts.append(f'<text class="head" x="{left + PADDING:.0f}" y="20">{escape(head)}</text>')
        left += column
    top = float(head_height)
    for row, row_height in zip(picture.rows, heights, strict=True):
        parts.append(f'<path class="line" d="M{PADDING} {top:.0f}H{width - PADDING:.0f}"/>')
        parts.append(f'<text x="{PADDING}" y="{top + ROW_GAP / 2 + 16:.0f}">{escape(row.label)}</text>')
        left = label_width
        for cell, column in zip(row.cells, widths, strict=True):
            parts += _cell(picture, cell, left + PADDING, top + ROW_GAP / 2)
            left += column
        top += row_height
    return "\n".join((*parts, "</svg>", ""))


def _width(texts: Sequence[str]) -> float:
    return max(len(text) for text in texts) * LETTER_WIDTH


def _size(picture: Picture, cell: Sequence[Token]) -> tuple[float, float]:
    """Width and height of the messages of a cell; an empty one is as high as a message."""
    number = max(len(cell), 1)
    if picture.is_stacked:
        return TOKEN_WIDTH, number * (TOKEN_HEIGHT + GAP) - GAP
    return number * (TOKEN_WIDTH + GAP) - GAP, TOKEN_HEIGHT


def _cell(picture: Picture, cell: Sequence[Token], left: float, top: float) -> list[str]:
    parts = []
    for number, token in enumerate(cell):
        x = left if picture.is_stacked else left + number * (TOKEN_WIDTH + GAP)
        y = top + number * (TOKEN_HEIGHT + GAP) if picture.is_stacked else top
        kind = f"k{token.colour}" + (" gone" if token.is_gone else "")
        parts.append(
            f'<g class="{kind}"><rect class="token" x="{x:.0f}" y="{y:.0f}" width="{TOKEN_WIDTH}" '
            f'height="{TOKEN_HEIGHT}" rx="4"/><text x="{x + TOKEN_WIDTH / 2:.0f}" y="{y + 15.5:.1f}" '
            f'text-anchor="middle">{escape(token.body)}</text></g>'
        )
    return parts


def _tokens(bodies: Sequence[str], by_letter: bool = False) -> list[Token]:
    """Messages in the order in which they are named; `by_letter`: the colour shows the key or the group."""
    return [Token(body, "abcd".index(body[0]) if by_letter else 0) for body in bodies]


def _after_each(facts: Seen, title: str, removed: str, by_letter: bool) -> Picture:
    """What waits after each message that is sent, and what that one removed."""
    waiting: list[list[str]] = facts["waiting after each message"]
    gone = []
    for sent, before, after in zip(facts["sent"], [[], *waiting], waiting, strict=False):
        gone.append([body for body in (*before, sent) if body not in after])
    return Picture(
        title=title,
        columns=[f"{sent} sent" for sent in facts["sent"]],
        rows=[
            Row("waiting", [_tokens(bodies, by_letter) for bodies in waiting]),
            Row(removed, [[Token(t.body, t.colour, True) for t in _tokens(bodies, by_letter)] for bodies in gone]),
        ],
        is_stacked=True,
    )


def ring(seen: Mapping[str, Seen]) -> Picture:
    """A ring of 3 after each message."""
    return _after_each(seen["ring.overflow"], "A ring of 3: the oldest message makes room", "removed", False)


def last_value(seen: Mapping[str, Seen]) -> Picture:
    """A last-value queue after each message."""
    return _after_each(seen["last_value.replacing"], "The last message of each key stays", "replaced", True)


def non_destructive(seen: Mapping[str, Seen]) -> Picture:
    """Two consumers of a non-destructive queue."""
    facts = seen["non_destructive.late_consumer"]
    before = facts["first"][0]
    after = facts["sent"][len(before) :]
    return Picture(
        title="Each consumer of a non-destructive queue gets every message",
        columns=["sent before", "second attaches", "sent after"],
        rows=[
            Row("sent", [_tokens(before), [], _tokens(after)]),
            Row("first consumer", [_tokens(before), [], _tokens(facts["first"][1])]),
            Row("second consumer", [[], _tokens(facts["second"][0]), _tokens(facts["second"][1])]),
        ],
    )


def exclusive(seen: Mapping[str, Seen]) -> Picture:
    """Two consumers of an exclusive queue, of which the owner leaves."""
    facts = seen["exclusive.owner_closes_with_unsettled_messages"]
    return Picture(
        title="One consumer of an exclusive queue gets everything until it leaves",
        columns=["owner has credit for two", "owner leaves, nothing settled"],
        rows=[
            Row("sent", [_tokens(facts["sent"]), []]),
            Row("owner", [_tokens(facts["owner"]), []]),
            Row("other consumer", [_tokens(facts["other before"]), _tokens(facts["other after"])]),
        ],
    )


def groups(seen: Mapping[str, Seen]) -> Picture:
    """Messages of four groups and two consumers."""
    facts = seen["groups.pinning"]
    return Picture(
        title="All messages of a group go to one consumer",
        columns=["messages of groups a, b, c and d"],
        rows=[
            Row("sent", [_tokens(facts["sent"], True)]),
            Row("first consumer", [_tokens(facts["first"], True)]),
            Row("second consumer", [_tokens(facts["second"], True)]),
        ],
    )


def busy_owner(seen: Mapping[str, Seen]) -> Picture:
    """The owner of a group has no credit for a while."""
    facts = seen["groups.busy_owner"]
    first = len(facts["owner"])
    return Picture(
        title="A busy owner holds up its own groups only",
        columns=["a has an owner", "owner has no credit", "credit for one"],
        rows=[
            Row("sent", [_tokens(facts["sent"][:first], True), _tokens(facts["sent"][first:], True), []]),
            Row("owner of a", [_tokens(facts["owner"], True), [], _tokens(facts["owner with credit"], True)]),
            Row("other consumer", [[], _tokens(facts["other"], True), _tokens(facts["other afterwards"], True)]),
            Row("waiting", [[], *(_tokens(bodies, True) for bodies in facts["waiting"])]),
        ],
    )


def consumer_priority(seen: Mapping[str, Seen]) -> Picture:
    """Consumers of three priorities."""
    facts = seen["consumer_priority.higher_first"]
    return Picture(
        title="Higher consumer priorities are served first",
        columns=["each consumer has credit for two"],
        rows=[
            Row("sent", [_tokens(facts["sent"])]),
            *(Row(name, [_tokens(facts[name])]) for name in ("priority 5", "priority 1", "priority 0")),
        ],
    )


def diverts(seen: Mapping[str, Seen]) -> Picture:
    """An exclusive and an ordinary divert with filters."""
    facts = seen["diverts.filters"]
    return Picture(
        title="What two diverts make of three messages",
        columns=["messages of level 1, 4 and 9"],
        rows=[
            Row("sent", [_tokens(facts["sent"])]),
            Row("queue of the address", [_tokens(facts["filter"])]),
            Row("exclusive, level > 5", [_tokens(facts["filter.high"])]),
            Row("ordinary, level > 2", [_tokens(facts["filter.all"])]),
        ],
    )


def retroactive(seen: Mapping[str, Seen]) -> Picture:
    """A late subscriber of an address that keeps three messages."""
    facts = seen["retroactive.history"]
    return Picture(
        title="A late subscriber begins with the last messages of the address",
        columns=["before", "subscriber comes", "afterwards"],
        rows=[
            Row("sent", [_tokens(facts["sent before"]), [], _tokens(facts["then"])]),
            Row("subscriber", [[], _tokens(facts["at the beginning"]), _tokens(facts["then"])]),
        ],
    )


PICTURES: Final[Mapping[str, Callable[[Mapping[str, Seen]], Picture]]] = {
    "ring": ring,
    "last-value": last_value,
    "non-destructive": non_destructive,
    "exclusive": exclusive,
    "groups": groups,
    "groups-busy-owner": busy_owner,
    "consumer-priority": consumer_priority,
    "diverts": diverts,
    "retroactive": retroactive,
}
"""Pictures by the names of their files."""


def drawn(seen: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {f"{name}.svg": svg(draw(seen)) for name, draw in PICTURES.items()}
