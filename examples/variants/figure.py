"""Depth of coverage along each sequence, and where the variants are, as SVG. Standard library only."""

import collections
import sys

WIDTH, HEIGHT, GAP, LEFT = 760, 120, 46, 60
COLUMNS = 380


def read_depth(path):
    """Name -> mean depth in each of COLUMNS windows, and the sequence's length."""
    depth = collections.OrderedDict()
    with open(path, encoding="ascii") as lines:
        for line in lines:
            name, _, count = line.split("\t")
            depth.setdefault(name, []).append(int(count))
    rows = []
    for name, counts in depth.items():
        n = min(COLUMNS, len(counts))
        means = []
        for i in range(n):
            part = counts[i * len(counts) // n:(i + 1) * len(counts) // n]
            means.append(sum(part) / len(part))
        rows.append((name, means, len(counts)))
    return rows


def read_variants(path):
    """Name -> positions."""
    places = collections.defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, position = line.split("\t")[:2]
                places[name].append(int(position))
    return places


def main():
    rows, places = read_depth(sys.argv[1]), read_variants(sys.argv[2])
    total = len(rows) * (HEIGHT + GAP) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 20} {total}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH + LEFT + 20}" height="{total}" fill="white"/>']
    for index, (name, means, length) in enumerate(rows):
        top = 24 + index * (HEIGHT + GAP)
        peak = max(max(means), 1)
        points = " ".join(f"{LEFT + (i + .5) * WIDTH / len(means):.1f},{top + HEIGHT * (1 - m / peak):.1f}"
                          for i, m in enumerate(means))
        out.append(f'<text x="{LEFT}" y="{top - 8}">{name}, {length} bp, {len(places[name])} variants</text>')
        out.append(f'<polygon points="{LEFT},{top + HEIGHT} {points} {LEFT + WIDTH},{top + HEIGHT}" fill="#4477aa"/>')
        out.append(f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{peak:.0f}x</text>')
        for position in places[name]:
            x = LEFT + position / length * WIDTH
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + HEIGHT + 6}" stroke="#cc3311"/>')
    out.append("</svg>")
    with open(sys.argv[3], "w", encoding="utf-8") as svg:
        svg.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
