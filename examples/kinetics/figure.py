"""A plain scatter plot with curves, as SVG."""

import numpy as np

WIDTH, HEIGHT = 640, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 60
X_MAX, Y_MAX = 1.2, 240
COLOURS = ["#b5542b", "#2b6f8f"]


def x_at(c):
    return LEFT + c / X_MAX * (WIDTH - LEFT - RIGHT)


def y_at(v):
    return HEIGHT - BOTTOM - v / Y_MAX * (HEIGHT - TOP - BOTTOM)


def axes():
    yield (f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" '
           'stroke="#444"/>')
    for c in np.arange(0, X_MAX + 0.01, 0.2):
        yield (f'<text x="{x_at(c):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
               f'{c:.1f}</text>')
    for v in range(0, Y_MAX + 1, 40):
        yield (f'<text x="{LEFT - 8}" y="{y_at(v) + 4:.1f}" text-anchor="end">{v}</text>'
               f'<path d="M{LEFT} {y_at(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
    yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">'
           'substrate concentration (ppm)</text>')
    yield (f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
           'text-anchor="middle">velocity (counts/min²)</text>')


def series(state, points, curve, colour, place):
    c = np.linspace(0, X_MAX, 121)
    line = " ".join(f"{x_at(a):.1f},{y_at(b):.1f}" for a, b in zip(c, curve(c)))
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for a, b in points.T:
        yield f'<circle cx="{x_at(a):.1f}" cy="{y_at(b):.1f}" r="4" fill="{colour}"/>'
    x = LEFT + 20 + 110 * place
    yield (f'<circle cx="{x}" cy="20" r="4" fill="{colour}"/>'
           f'<text x="{x + 10}" y="24">{state}</text>')


def draw(states, curves):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *axes()]
    for place, (state, points) in enumerate(states.items()):
        parts += series(state, points, curves[state], COLOURS[place % len(COLOURS)], place)
    return "\n".join([*parts, "</svg>", ""])
