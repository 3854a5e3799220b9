// Charts: they say their numbers when pointed at or read by arrow keys, and zoom by dragging. All that they show is in
// the page already: nothing is loaded, and no text is ever read as markup.
"use strict";
var driftline = {};
driftline.charts = (() => {
  const NEAR = 5; // pixels below which a drag is a click
  const HELP = "Arrow keys read window by window, plus and minus zoom, Escape shows all.";

  const make = (name, attributes = {}, text = "") => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const draw = (name, attributes) => {
    const element = document.createElementNS(document.querySelector("svg").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const all = (root, selector) => [...root.querySelectorAll(selector)];
  const number = (text) => (text ? Number(text) : NaN);
  const digits = (value) => String(Number(value.toPrecision(3)));
  const percent = (share) => `${digits(100 * share)} %`;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // --- the tip, one for the page ---------------------------------------------------------------------------------
  let tip = null;
  const show = (text, x, y) => {
    if (!tip || !tip.isConnected) {
      tip = make("div", { class: "tip", role: "status" });
      document.body.append(tip);
    }
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const across = clamp(x + 14, 4, document.documentElement.clientWidth - box.width - 4);
    const above = y - box.height - 12;
    tip.style.left = `${across + scrollX}px`;
    tip.style.top = `${(above > 4 ? above : y + 18) + scrollY}px`;
  };
  const hide = () => {
    if (tip) tip.hidden = true;
  };

  // --- charts over time --------------------------------------------------------------------------------------------
  // A chart has its plot's edges in data-box. Places on the axis are fractions, the same in all charts of a panel.
  const readers = (svg, panel) => {
    const [left, right] = svg.dataset.box.split(" ").map(Number);
    const from = left + 6;
    const wide = right - left - 12;
    if (!svg.dataset.points) {
      return all(svg, ".hits > rect").map((rect) => {
        const x = Number(rect.getAttribute("x"));
        const title = rect.querySelector("title");
        const says = title ? title.textContent : "";
        if (title) title.remove(); // the tip says it: a second one from the browser would cover it
        return { a: (x - from) / wide, b: (x + Number(rect.getAttribute("width")) - from) / wide, says };
      });
    }
    const each = Number(svg.dataset.each);
    const { places, names } = panel;
    return svg.dataset.points.split(";").map((packed, k) => {
      const first = k * each;
      const last = Math.min(first + each, places.length) - 1;
      const before = first ? (places[first - 1] + places[first]) / 2 : 0;
      const after = last + 1 < places.length ? (places[last] + places[last + 1]) / 2 : 1;
      const where = first === last ? names[first] : `${names[first]} to ${names[last]}`;
      return { a: before, b: after, says: `${where[0].toUpperCase()}${where.slice(1)}: ${column(packed, first < last)}` };
    });
  };
  const column = (packed, several) => {
    const [value, chance, low, high, missing, fresh] = packed.split(",");
    if (!value) return "not tested";
    let text = `${several ? "up to " : ""}${digits(number(value))} nats`;
    if (low) text += high === "+" ? ` (from ${digits(number(low))})` : ` (${digits(number(low))} to ${digits(number(high))})`;
    text += low ? "; its test speaks" : "; its test is silent";
    if (chance) text += number(chance) < 1e-9 ? ", chance below 1e-9" : `, chance ${digits(number(chance))}`;
    if (missing) text += `; missing ${percent(number(missing))}`;
    if (fresh) text += `; new values ${percent(number(fresh))}`;
    return text;
  };

  const zoomed = (svg, panel) => {
    const inner = svg.querySelector("svg.plot");
    if (!inner) return;
    const [left, right, , bottom] = svg.dataset.box.split(" ").map(Number);
    const from = left + 6;
    const wide = right - left - 12;
    const view = (svg._view ??= inner.getAttribute("viewBox").split(" ").map(Number));
    const ticks = svg.querySelector(".ticks");
    const labels = (svg._ticks ??= ticks ? [...ticks.childNodes] : []);
    const [a, b] = panel.zoom ?? [0, 1];
    const scale = b - a;
    const whole = !panel.zoom;
    const start = whole ? view[0] : from + a * wide - 6 * scale;
    const width = whole ? view[2] : (right - left) * scale;
    inner.setAttribute("viewBox", `${start} ${view[1]} ${width} ${view[3]}`);
    svg.classList.toggle("zoomed", !whole);
    for (const mark of all(inner, ".marks > *")) {
      mark._x ??= mark.getBBox().x + mark.getBBox().width / 2;
      if (whole) mark.removeAttribute("transform");
      else mark.setAttribute("transform", `translate(${mark._x * (1 - scale)} 0) scale(${scale} 1)`);
    }
    if (!ticks) return;
    if (whole) {
      ticks.replaceChildren(...labels);
      return;
    }
    const inside = panel.places.map((place, i) => [place, i]).filter(([place]) => place >= a && place <= b);
    const most = right - left > 500 ? 5 : 2;
    const step = Math.max(1, Math.ceil(inside.length / most));
    const found = [];
    for (let k = Math.floor((inside.length - 1) / 2) % step; k < inside.length; k += step) {
      const x = from + ((inside[k][0] - a) / scale) * wide;
      const label = panel.names[inside[k][1]].replace(/^the week of /, "").replace(/ \(window .*\)$/, "");
      const half = 3.4 * label.length;
      const anchor = x + half > right + 6 ? "end" : x - half < 0 ? "start" : "middle";
      const text = draw("text", { x, y: bottom + 17, "text-anchor": anchor });
      text.textContent = label;
      found.push(draw("path", { d: `M${x} ${bottom}v4`, class: "axis" }), text);
    }
    ticks.replaceChildren(...found);
  };

  const zoom = (panel, range) => {
    const least = 1.2 / Math.max(panel.places.length, 1);
    let [a, b] = range ?? [0, 1];
    a = clamp(a, 0, 1);
    b = clamp(b, 0, 1);
    panel.zoom = range && b - a > least && b - a < 0.999 ? [a, b] : null;
    panel.kept.zoom = panel.zoom;
    for (const svg of all(panel.root, "svg.chart")) zoomed(svg, panel);
    panel.reset.hidden = !panel.zoom;
    hide();
  };

  const place = (svg, x) => {
    const box = svg.getBoundingClientRect();
    return ((x - box.left) / box.width) * svg.viewBox.baseVal.width; // client -> drawing
  };

  const chart = (svg, panel) => {
    if (svg._ready) return;
    svg._ready = true;
    const [left, right, top, bottom] = svg.dataset.box.split(" ").map(Number);
    const from = left + 6;
    const wide = right - left - 12;
    let found = null;
    let drag = null;
    let at = -1;
    const cursor = draw("rect", { class: "cursor", y: top, height: bottom - top, x: left, width: 0 });
    const brush = draw("rect", { class: "brush", y: top, height: bottom - top, x: left, width: 0 });
    svg.append(cursor, brush);
    svg.setAttribute("tabindex", "0");
    const about = svg.querySelector("desc");
    if (about && !about.textContent.endsWith(HELP)) about.textContent += ` ${HELP}`;

    const range = () => panel.zoom ?? [0, 1];
    const fraction = (x) => {
      const [a, b] = range();
      return a + ((place(svg, x) - from) / wide) * (b - a);
    };
    const pixel = (f) => {
      const [a, b] = range();
      return clamp(from + ((f - a) / (b - a)) * wide, left, right);
    };
    const say = (k, y) => {
      found ??= readers(svg, panel);
      if (k < 0 || k >= found.length) return;
      at = k;
      const { a, b, says } = found[k];
      const [x, end] = [pixel(a), pixel(b)];
      cursor.setAttribute("x", x);
      cursor.setAttribute("width", Math.max(end - x, 1));
      const box = svg.getBoundingClientRect();
      const unit = box.width / svg.viewBox.baseVal.width;
      show(says, box.left + ((x + end) / 2) * unit, y ?? box.top + (top + 20) * unit);
    };
    const leave = () => {
      cursor.setAttribute("width", 0);
      hide();
    };
    const nearest = (f) => {
      found ??= readers(svg, panel);
      const inside = found.findIndex(({ a, b }) => f >= a && f <= b);
      if (inside >= 0) return inside;
      const far = found.map(({ a, b }) => Math.min(Math.abs(f - a), Math.abs(f - b)));
      return far.indexOf(Math.min(...far));
    };

    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { x: event.clientX, id: event.pointerId };
    });
    svg.addEventListener("pointermove", (event) => {
      if (drag && Math.abs(event.clientX - drag.x) >= NEAR) {
        if (!svg.hasPointerCapture(drag.id)) svg.setPointerCapture(drag.id);
        const [a, b] = [drag.x, event.clientX].map((x) => clamp(place(svg, x), left, right)).sort((p, q) => p - q);
        brush.setAttribute("x", a);
        brush.setAttribute("width", b - a);
        hide();
        return;
      }
      const x = place(svg, event.clientX);
      if (x < left - 2 || x > right + 2) leave();
      else say(nearest(fraction(event.clientX)), event.clientY);
    });
    const stop = (event, done) => {
      if (done && drag && Math.abs(event.clientX - drag.x) >= NEAR) {
        zoom(panel, [fraction(drag.x), fraction(event.clientX)].sort((p, q) => p - q));
      }
      brush.setAttribute("width", 0);
      drag = null;
    };
    svg.addEventListener("pointerup", (event) => stop(event, true));
    svg.addEventListener("pointercancel", (event) => stop(event, false));
    svg.addEventListener("pointerleave", () => drag || leave());
    svg.addEventListener("dblclick", () => zoom(panel, null));
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      found ??= readers(svg, panel);
      const [a, b] = range();
      const near = at >= 0 ? clamp((found[at].a + found[at].b) / 2, a, b) : (a + b) / 2;
      const inside = found.map((_, k) => k).filter((k) => found[k].b > a && found[k].a < b);
      const steps = { ArrowLeft: -1, ArrowRight: 1 };
      if (event.key in steps) {
        const next = at < 0 ? (steps[event.key] > 0 ? inside[0] : inside.at(-1)) : at + steps[event.key];
        say(clamp(next, inside[0], inside.at(-1)));
      } else if (event.key === "Home") say(inside[0]);
      else if (event.key === "End") say(inside.at(-1));
      else if (event.key === "+" || event.key === "=") zoom(panel, [near - (near - a) / 2, near + (b - near) / 2]);
      else if (event.key === "-") zoom(panel, [near - 2 * (near - a), near + 2 * (b - near)]);
      else if (event.key === "Escape") zoom(panel, null);
      else return;
      event.preventDefault();
    });
  };

  // --- histograms --------------------------------------------------------------------------------------------------
  const histogram = (svg) => {
    if (svg._ready) return;
    svg._ready = true;
    const bins = svg.dataset.bins.split(";").map((bin) => bin.split(",").map(Number));
    svg.addEventListener("pointermove", (event) => {
      const x = place(svg, event.clientX);
      const bin = bins.find(([a, b]) => x >= a && x <= b);
      if (bin) show(`then ${percent(bin[2])}, now ${percent(bin[3])}`, event.clientX, event.clientY);
      else hide();
    });
    svg.addEventListener("pointerleave", hide);
  };

  return { all, chart, histogram, make, number, zoom };
})();
