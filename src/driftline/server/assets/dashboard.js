// The page as files change: one fragment is fetched and takes the place of the old one. It works without this script,
// as a page that is as of when it was loaded.
"use strict";
(() => {
  const live = document.getElementById("live");
  const link = document.getElementById("link");
  if (!live || !link) return;

  // what a person has done to the page, and wants to find again
  const named = (element) => element.id || (element.querySelector("summary") || {}).textContent || "";
  const remember = () => ({
    scroll: [window.scrollX, window.scrollY],
    focus: document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "",
    fields: [...live.querySelectorAll("input[id], select[id]")].map((f) => [f.id, f.value, f.checked]),
    open: [...live.querySelectorAll("details")].map((d) => [named(d), d.open]),
    lists: [...live.querySelectorAll(".scroll")].map((s) => [s.scrollLeft, s.scrollTop]),
  });
  const restore = (kept) => {
    for (const [id, value, checked] of kept.fields) {
      const field = document.getElementById(id);
      if (!field || !live.contains(field)) continue;
      if (field.type === "radio" || field.type === "checkbox") field.checked = checked;
      else if (field.value !== value) field.value = value;
    }
    const open = new Map(kept.open);
    for (const details of live.querySelectorAll("details")) {
      if (open.has(named(details))) details.open = open.get(named(details));
    }
    if (typeof driftline !== "undefined") driftline.enhance(live);
    for (const [id] of kept.fields) {
      const field = document.getElementById(id);
      if (field && live.contains(field) && (field.type === "search" || field.tagName === "SELECT")) {
        field.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }
    live.querySelectorAll(".scroll").forEach((element, k) => {
      if (kept.lists[k]) [element.scrollLeft, element.scrollTop] = kept.lists[k];
    });
    const focused = kept.focus && document.getElementById(kept.focus);
    if (focused) focused.focus({ preventScroll: true });
    window.scrollTo(...kept.scroll);
  };

  const clock = () => new Date().toLocaleTimeString();
  const say = (text, state) => {
    link.textContent = text;
    document.body.classList.toggle("lost", state === "lost");
    document.body.classList.toggle("linked", state === "linked");
  };
  let busy = false;
  let again = false;
  const refresh = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(live.dataset.fragment, { cache: "no-store" });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      const text = await answer.text();
      const kept = remember();
      live.innerHTML = text;
      live.dataset.version = answer.headers.get("X-Driftline-Version") || "";
      restore(kept);
      tick();
      say(`live, ${clock()}`, "linked");
    } catch {
      say("connection lost", "lost");
    } finally {
      busy = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  // ages grow though no window comes
  const ago = (seconds) => {
    if (seconds >= 172800) return `${Math.round(seconds / 86400)} d ago`;
    if (seconds >= 7200) return `${Math.round(seconds / 3600)} h ago`;
    if (seconds >= 120) return `${Math.round(seconds / 60)} min ago`;
    return `${Math.max(0, Math.round(seconds))} s ago`;
  };
  const tick = () => {
    for (const age of live.querySelectorAll("time.age")) {
      age.textContent = ago(Date.now() / 1000 - Number(age.dataset.at));
    }
  };
  setInterval(tick, 5000);

  // streams by name
  document.addEventListener("input", (event) => {
    if (event.target.id !== "find") return;
    const wanted = event.target.value.trim().toLowerCase();
    for (const card of live.querySelectorAll(".stream")) {
      card.hidden = !card.dataset.name.toLowerCase().includes(wanted);
    }
  });

  const key = (live.dataset.fragment.match(/^\/streams\/([^/?]+)/) || [])[1];
  const source = new EventSource("/events");
  source.addEventListener("hello", (event) => {
    if (JSON.parse(event.data).version !== live.dataset.version) refresh();
    else say(`live, ${clock()}`, "linked");
  });
  source.addEventListener("change", (event) => {
    const told = JSON.parse(event.data);
    if (!key || told.streams.includes(key)) refresh();
    else live.dataset.version = told.version;
  });
  source.addEventListener("error", () => say("connection lost", "lost"));
})();
