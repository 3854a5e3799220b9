"""SVG and HTML as text: one function that writes an element, one that makes any text harmless."""

from __future__ import annotations

from driftline._markup import esc

__all__ = ["Markup", "area", "drawing", "esc", "key", "path", "plot", "px", "tag", "ticks"]

Markup = str  # text that is already markup; anything else goes through `esc` first


def px(value: float) -> str:
    """Format a coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, *children: Markup, **attributes: object) -> Markup:
    """Write an element, escaping attributes but not children; ``class_`` is class, ``a_b`` is a-b, None is left out.

    >>> tag("text", esc("a < b"), x=1.25, class_="tick")
    '<text x="1.2" class="tick">a &lt; b</text>'
    """
    parts = []
    for key, value in attributes.items():
        if value is None:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f' {key}="{px(value) if isinstance(value, float) else esc(value)}"')
    inside = "".join(children)
    return f"<{name}{''.join(parts)}>{inside}</{name}>"


def path(points: list[tuple[float, float]]) -> str:
    """Return a line through points; a single point gives a short dash."""
    if len(points) == 1:
        (x, y), *_ = points
        return f"M{px(x - 2)} {px(y)}H{px(x + 2)}"
    return "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points)


def area(lower: list[tuple[float, float]], upper: list[tuple[float, float]]) -> str:
    """Return the region between two lines; a single point gives a thin bar."""
    if len(lower) == 1:
        lower, upper = [(x + d, y) for x, y in lower for d in (-2, 2)], [(x + d, y) for x, y in upper for d in (-2, 2)]
    return path(lower + upper[::-1]) + "Z"


def drawing(
    size: tuple[float, float], ident: str, title: str, words: str, layers: list[Markup], **attributes: object
) -> Markup:
    """Put layers on top of each other, the first at the bottom, under a title and a description in words."""
    return tag(
        "svg",
        tag("title", esc(title), id=f"{ident}-t"),
        tag("desc", esc(words), id=f"{ident}-d"),
        *layers,
        viewBox=f"0 0 {px(size[0])} {px(size[1])}",
        role="img",
        aria_labelledby=f"{ident}-t",
        aria_describedby=f"{ident}-d",
        **attributes,
    )


def plot(box: tuple[float, float, float], layers: list[Markup]) -> Markup:
    """Put layers that are drawn over time into a part of a drawing that cuts them off: the script zooms it.

    Arguments:
        box: left and right edge, and height.
    """
    left, right, height = box
    return tag(
        "svg",
        *layers,
        class_="plot",
        x=left,
        width=right - left,
        height=height,
        viewBox=f"{px(left)} 0 {px(right - left)} {px(height)}",
        preserveAspectRatio="none",
    )


def ticks(places: list[tuple[float, str]], y: float, width: float) -> Markup:
    """Draw ticks of a horizontal axis at pixels, with their labels; the script replaces them when zoomed."""
    found = []
    for x, label in places:
        half = 3.4 * len(label)
        anchor = "end" if x + half > width else "start" if x - half < 0 else "middle"
        found.append(tag("path", d=f"M{px(x)} {px(y)}v4", class_="axis"))
        found.append(tag("text", esc(label), x=x, y=y + 17, text_anchor=anchor))
    return tag("g", *found, class_="ticks")


def key(shape: Markup, words: str) -> Markup:
    """Write an entry of a legend."""
    return tag("li", tag("svg", shape, viewBox="0 0 26 14", aria_hidden="true"), esc(words))
