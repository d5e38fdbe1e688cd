"""The soak test's curves as one SVG file: throughput and members over time, loss over steps."""

WIDTH, HEIGHT, LEFT, GAP = 900, 160, 70, 60


def curve(points, top, colour, most_x, most_y):
    places = " ".join(f"{LEFT + x / most_x * (WIDTH - LEFT - 20):.1f},{top + HEIGHT - y / most_y * HEIGHT:.1f}"
                      for x, y in points)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.2" points="{places}"/>'


def panel(number, title, unit, points, colour):
    top = 40 + number * (HEIGHT + GAP)
    most_x = max((x for x, _ in points), default=1) or 1
    most_y = max((y for _, y in points), default=1) or 1
    right, bottom = WIDTH - 20, top + HEIGHT
    return "\n".join([
        f'<text x="{LEFT}" y="{top - 10}">{title}</text>',
        f'<path d="M{LEFT},{top} V{bottom} H{right}" fill="none" stroke="black"/>',
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{most_y:.3g}</text>',
        f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{most_x:.0f} {unit}</text>',
        curve(points, top, colour, most_x, most_y)])


def throughput(samples, over=10):
    """(seconds, steps a second), each over the last `over` seconds."""
    points, first = [], 0
    for i, sample in enumerate(samples):
        while sample["seconds"] - samples[first]["seconds"] > over:
            first += 1
        elapsed = sample["seconds"] - samples[first]["seconds"]
        if i > first and elapsed > 1:
            points.append((sample["seconds"], max(0, sample["step"] - samples[first]["step"]) / elapsed))
    return points


def draw(report):
    samples = report["samples"]
    panels = [
        panel(0, "steps a second, over the last 10 s", "s", throughput(samples), "#1f5fa8"),
        panel(1, "living members", "s", [(sample["seconds"], sample["members"]) for sample in samples], "#666666"),
        panel(2, "loss of a step", "steps", [(int(step), loss) for step, loss in report["losses"].items()], "#b03020")]
    height = 40 + len(panels) * (HEIGHT + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
            f'font-size="12"><rect width="100%" height="100%" fill="white"/>\n' + "\n".join(panels) + "\n</svg>\n")
