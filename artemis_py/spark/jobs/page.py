"""A report as one self-contained HTML file: style, figures and tables, no scripts.

All text from messages is escaped here, where it enters the page; `charts` does the same for its labels.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

_STYLE: Final = """
:root{--ink:#1d2733;--soft:#5b6876;--line:#d9dfe5;--back:#fff;--card:#f5f7f9}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa7b4;--line:#39434e;--back:#161b21;--card:#1f262e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1040px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}.when{color:var(--soft);margin:.2rem 0 1.5rem}
dl{display:flex;flex-wrap:wrap;gap:.8rem;margin:0}
dl div{background:var(--card);border-radius:8px;padding:.6rem 1rem;min-width:7rem}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
figure{margin:1.2rem 0}figcaption{font-weight:600;margin-bottom:.4rem}svg{width:100%;height:auto;display:block}
.label{font-size:12px;fill:var(--soft)}.end{text-anchor:end}.grid{stroke:var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;font-size:.85rem;color:var(--soft)}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{text-align:left;padding:.4rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}td{overflow-wrap:anywhere;min-width:4.5rem}
th.number,td.number{text-align:right;font-variant-numeric:tabular-nums}
td:not(.number):not(.code){min-width:7.5rem}
td.code{font-family:ui-monospace,monospace;font-size:.8rem;min-width:7rem}
"""
_NUMBER: Final = ' class="number"'
_COLOURS: Final = ("#2f6fb2", "#d9742b", "#3f9a58", "#b5446e", "#7a5cc0", "#2a9d9d", "#9a7b2f", "#6b7785")


def page(title: str, subtitle: str, facts: Sequence[tuple[str, str]], sections: Sequence[str]) -> str:
    """Return the file. `facts` are shown large at the top; `sections` are HTML of `section`, `table` and `charts`."""
    colours = "".join(
        f".s{index}{{fill:{colour};background:{colour}}}"
        f".l{index}{{stroke:{colour};fill:none;stroke-width:2}}.l{index}.dot{{fill:{colour}}}"
        for index, colour in enumerate(_COLOURS)
    )
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be loaded or run, whatever a name or a body contains.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}{colours}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="when">{escape(subtitle)}</p><dl>{cards}</dl>'
        f"{''.join(sections)}</body></html>\n"
    )


def section(title: str, *content: str) -> str:
    """Return a heading and HTML below it."""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], code: Sequence[int] = ()) -> str:
    """Return a table; numbers are aligned right, the columns `code` have a fixed pitch."""
    if not rows:
        return "<p>None.</p>"
    top = "".join(
        f"<th{_NUMBER if _is_number(value) else ''}>{escape(heading)}</th>"
        for heading, value in zip(headings, rows[0], strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(value, index in code) for index, value in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _cell(value: object, is_code: bool) -> str:
    if isinstance(value, (int, float)):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        return f"<td{_NUMBER}>{text}</td>"
    kind = ' class="code"' if is_code else ""
    return f"<td{kind}>{escape('' if value is None else str(value))}</td>"
