# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG text, for reports that are one file."""
import html
import math

COLORS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 280, 60, 16, 14, 44


def ticks(low, high, count=6):
    span = high - low or 1
    step = 10 ** math.floor(math.log10(span / count))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= count:
            step *= factor
            break
    first = math.ceil(low / step) * step
    return [first + i * step for i in range(int((high - first) / step + 1e-9) + 1)]


def plot(series, x_label, y_label, *, y_max=None, marks=(), lines=()):
    """`series`: (name, points, kind) with kind 'line' or 'dots'. `marks`: (x, text), upright. `lines`: (y, text), level."""
    points = [p for _, ps, _ in series for p in ps]
    if not points:
        return "<p>nothing was measured</p>"
    x_low, x_high = min(p[0] for p in points), max(p[0] for p in points)
    y_high = y_max or max([p[1] for p in points] + [y for y, _ in lines]) * 1.08 or 1
    x_span = (x_high - x_low) or 1

    def x_of(x):
        return LEFT + (x - x_low) / x_span * (WIDTH - LEFT - RIGHT)

    def y_of(y):
        return HEIGHT - BOTTOM - min(y, y_high) / y_high * (HEIGHT - TOP - BOTTOM)

    rows = (len(series) + 3) // 4  # of the legend
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 8 + 14 * rows}" role="img">']
    for y in ticks(0, y_high):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}" class="grid"/>'
                   f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(x_low, x_high, 8):
        out.append(f'<text x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    for x, text in marks:
        out.append(f'<line x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>'
                   f'<text x="{x_of(x) + 3:.1f}" y="{TOP + 10}">{html.escape(text)}</text>')
    for y, text in lines:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}" class="mark"/>'
                   f'<text x="{WIDTH - RIGHT}" y="{y_of(y) - 4:.1f}" text-anchor="end">{html.escape(text)}</text>')
    for i, (name, ps, kind) in enumerate(series):
        color = COLORS[i % len(COLORS)]
        if kind == "line":
            path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in ps)
            out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        else:
            out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="1.8" fill="{color}"/>' for x, y in ps]
        x = LEFT + 8 + 170 * (i % 4)
        y = HEIGHT + 2 + 14 * (i // 4)
        out.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{color}"/>'
                   f'<text x="{x + 14}" y="{y + 9}">{html.escape(name)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_label)}</text>'
               f'<text transform="translate(14 {(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)" text-anchor="middle">'
               f'{html.escape(y_label)}</text></svg>')
    return "".join(out)


def page(title, lead, sections):
    """`sections`: (heading, list of HTML fragments)."""
    style = ("body{font:15px/1.5 system-ui,sans-serif;max-width:820px;margin:2rem auto;padding:0 1rem;color:#1f2937}"
             "table{border-collapse:collapse;margin:.6rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #e5e7eb;"
             "text-align:right}td:first-child,th:first-child{text-align:left}svg{width:100%}svg text{font-size:11px;"
             "fill:#374151}.grid{stroke:#e5e7eb}.mark{stroke:#9ca3af;stroke-dasharray:4 3}.ok{color:#047857}"
             ".bad{color:#b91c1c;font-weight:600}")
    body = "".join(f"<h2>{html.escape(h)}</h2>{''.join(parts)}" for h, parts in sections)
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{style}</style><h1>{html.escape(title)}</h1>{lead}{body}</html>\n")


def table(head, rows):
    cells = "".join(f"<th>{html.escape(str(h))}</th>" for h in head)
    lines = "".join("<tr>" + "".join(f"<td>{c if str(c).startswith('<') else html.escape(str(c))}</td>" for c in row) + "</tr>"
                    for row in rows)
    return f"<table><tr>{cells}</tr>{lines}</table>"
