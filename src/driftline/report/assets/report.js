// What a report does when searched, sorted and opened. driftline.enhance(root) may be called again after a fragment was
// swapped: what the reader had chosen (zoom, search, order, what is open, which original) is kept by name.
"use strict";
(() => {
  const { all, chart, histogram, make, number, zoom } = driftline.charts;
  const memory = new Map(); // original -> what the reader chose there

  // --- columns: search, order, open ----------------------------------------------------------------------------------
  const orders = {
    "furthest first": null, // as they are written: those that moved by their drift, others by their chance
    "own divergence": (row) => -(number(row.dataset.drift) || 0),
    "least likely (p-value)": (row) => (row.dataset.chance ? number(row.dataset.chance) : 2),
    "latest to move": (row) => -(row.dataset.since ? number(row.dataset.since) : -1),
    "name": (row) => title(row),
  };
  const title = (row) => row.querySelector("summary bdi").textContent;
  const sorted = (panel) => {
    const by = orders[panel.kept.order];
    for (const group of all(panel.root, ".columns")) {
      const rows = (group._rows ??= all(group, ":scope > .column"));
      const pairs = rows.map((row, i) => [by ? by(row) : i, i, row]);
      const less = (p, q) => (typeof p === "string" ? p.localeCompare(q, undefined, { numeric: true }) : p - q);
      pairs.sort((p, q) => less(p[0], q[0]) || p[1] - q[1]);
      group.append(...pairs.map(([, , row]) => row));
    }
  };
  const searched = (panel) => {
    const wanted = panel.kept.search.trim().toLowerCase();
    let shown = 0;
    const rows = all(panel.root, ".columns > .column");
    for (const row of rows) {
      row.hidden = wanted !== "" && !title(row).toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    const folded = panel.root.querySelector(".all-columns > .quiet");
    if (folded && wanted) folded.open = all(folded, ".column").some((row) => !row.hidden);
    panel.count.textContent = wanted ? `${shown} of ${rows.length} columns` : `${rows.length} columns`;
  };
  const tools = (panel) => {
    const place = panel.root.querySelector(".all-columns");
    const rows = all(panel.root, ".columns > .column");
    if (!place || rows.length < 2) return;
    const search = make("input", { type: "search", class: "find", placeholder: "Search columns", "aria-label": "Search columns" });
    const order = make("select", { class: "order", "aria-label": "Order of columns" });
    for (const name of Object.keys(orders)) order.append(make("option", {}, name));
    panel.count = make("span", { class: "count", role: "status" });
    search.value = panel.kept.search;
    order.value = panel.kept.order;
    search.addEventListener("input", () => {
      panel.kept.search = search.value;
      searched(panel);
    });
    order.addEventListener("change", () => {
      panel.kept.order = order.value;
      sorted(panel);
    });
    const bar = make("div", { class: "tools" });
    bar.append(search, order, panel.count);
    place.prepend(bar);
    sorted(panel);
    searched(panel);
  };
  const folds = (panel) => {
    for (const fold of all(panel.root, "details")) {
      const words = fold.classList.contains("column") ? `column ${title(fold)}` : foldName(fold);
      if (panel.kept.open.has(words)) fold.open = panel.kept.open.get(words);
      fold.addEventListener("toggle", () => panel.kept.open.set(words, fold.open));
    }
  };
  // by what it is about, without numbers, which change from window to window
  const foldName = (fold) => fold.querySelector("summary").textContent.replace(/[\d,.]+/g, "");

  const begin = (root) => {
    const name = root.dataset.original ?? "";
    if (!memory.has(name)) {
      memory.set(name, { zoom: null, search: "", order: "furthest first", open: new Map(), chosen: false });
    }
    const kept = memory.get(name);
    const panel = { root, kept, zoom: kept.zoom, count: make("span") };
    panel.places = (root.dataset.places ?? "").split(" ").filter(Boolean).map(Number);
    panel.names = (root.dataset.names ?? "").split("|");
    panel.reset = make("button", { type: "button", class: "reset" }, "Show all windows");
    panel.reset.hidden = true;
    panel.reset.addEventListener("click", () => zoom(panel, null));
    root.append(panel.reset);
    tools(panel);
    folds(panel);
    for (const svg of all(root, "svg.chart")) chart(svg, panel);
    for (const svg of all(root, "svg.bins")) histogram(svg);
    if (kept.zoom) zoom(panel, kept.zoom);
    const tab = root.previousElementSibling?.previousElementSibling;
    if (!tab?.matches("input.tab")) return;
    if (kept.chosen) tab.checked = true;
    tab.addEventListener("change", () => {
      for (const other of memory.values()) other.chosen = false;
      kept.chosen = true;
    });
  };

  const enhance = (root) => {
    const panels = all(root, ".panel");
    if (root instanceof Element && root.matches(".panel")) panels.push(root);
    for (const panel of panels) {
      if (panel._enhanced) continue;
      panel._enhanced = true;
      begin(panel);
    }
    return root;
  };
  driftline.enhance = enhance;
  enhance(document);
})();
