"""A bar chart as SVG: rows of labelled bars with whiskers. It has its own paper, so that it reads the same on light and dark pages."""

import html
import math

INK, MUTED, LINE, PAPER = "#2a2a2a", "#6b6b6b", "#dcdcd7", "#ffffff"
WIDTH, LEFT, RIGHT = 940, 150, 120
BAR, SPACE, HEAD, FOOT = 15, 14, 92, 46


def text(x, y, words, size=13, anchor="start", fill=INK, weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}">'
        f"{html.escape(words)}</text>"
    )


def nice_step(top):
    """About six lines, at 1, 2 or 5 times a power of ten."""
    rough = top / 6
    power = 10 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough)


def grid(scale, step, top, bottom):
    for i in range(int(top / step + 1e-9) + 1):
        x = LEFT + i * step * scale
        yield f'<path d="M{x:.1f} {HEAD - 8}V{bottom}" stroke="{LINE}" stroke-width="1"/>'
        yield text(x, bottom + 18, f"{i * step:g}", 12, "middle", MUTED)


def bar(y, value, whisker, scale, colour):
    """A bar to `value`, and a line from there to `whisker` with the number behind it."""
    end, far, middle = LEFT + value * scale, LEFT + whisker * scale, y + BAR / 2
    yield f'<rect x="{LEFT}" y="{y:.1f}" width="{value * scale:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
    yield f'<path d="M{end:.1f} {middle}H{far:.1f}M{far:.1f} {middle - 4}V{middle + 4}" stroke="{INK}" stroke-width="1.2" fill="none"/>'
    yield text(far + 7, middle + 4.5, f"{value:.1f}", 12)


def chart(title, axis, series, rows):
    """`series`: [(name, (colour, colour of a row that stands out))]; `rows`: [(label, stands out, [(value, whisker) of each series])]."""
    band = len(series) * (BAR + 2) + SPACE
    bottom = HEAD + len(rows) * band
    height = bottom + FOOT
    longest = max(whisker for _, _, values in rows for _, whisker in values)
    step = nice_step(longest)
    scale = (WIDTH - LEFT - RIGHT) / (math.ceil(longest / step) * step)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui,DejaVu Sans,sans-serif" role="img" aria-label="{html.escape(title, quote=True)}">',
        f'<rect width="{WIDTH}" height="{height}" rx="12" fill="{PAPER}"/>',
        text(30, 38, title, 17, weight="600"),
    ]
    x = 30
    for name, (colour, strong) in series:
        parts.append(
            f'<rect x="{x}" y="54" width="7" height="13" fill="{colour}"/><rect x="{x + 7}" y="54" width="7" height="13" fill="{strong}"/>'
        )
        parts.append(text(x + 21, 65, name, 13, fill=MUTED))
        x += 50 + 7.2 * len(name)
    parts.append(
        text(WIDTH - 30, 65, "bar: median, line: to the 95th percentile", 12, "end", MUTED)
    )
    parts += grid(scale, step, math.ceil(longest / step) * step, bottom)
    for i, (label, strong, values) in enumerate(rows):
        y = HEAD + i * band
        parts.append(
            text(
                LEFT - 12,
                y + (band - SPACE) / 2 + 4,
                label,
                14,
                "end",
                weight="600" if strong else "normal",
            )
        )
        for j, (value, whisker) in enumerate(values):
            parts += bar(y + j * (BAR + 2), value, whisker, scale, series[j][1][1 if strong else 0])
    parts.append(text(WIDTH - 30, bottom + 18, axis, 12, "end", MUTED))
    return "\n".join([*parts, "</svg>"]) + "\n"
