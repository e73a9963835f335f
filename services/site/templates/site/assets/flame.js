// The flame graph: search, keys and zoom. It is complete without this script.
"use strict";
(() => {
  const part = document.querySelector("[data-flame]");
  const graph = part?.querySelector("svg");
  if (!graph) return;
  const [about, found, reset, label] = ["[data-flame-about]", "[data-flame-found]", "[data-flame-reset]", ".flame-search"].map((s) => part.querySelector(s));
  const search = label.querySelector("input");
  const width = graph.viewBox.baseVal.width;
  const boxes = [...graph.querySelectorAll(".unslide-flame")].map((group) => {
    const box = group.querySelector("svg");
    const [x, y, w] = ["x", "y", "width"].map((name) => Number(box.getAttribute(name)));
    return { group, box, x, y, w, title: group.querySelector("title").textContent };
  });
  const rows = [...new Set(boxes.map((one) => one.y))].sort((a, b) => a - b);
  const byRow = new Map(rows.map((y) => [y, boxes.filter((one) => one.y === y).sort((a, b) => a.x - b.x)]));
  // Widths are rounded to a tenth.
  const inside = (inner, outer) => inner.x >= outer.x - 0.11 && inner.x + inner.w <= outer.x + outer.w + 0.11;
  let [now, zoomed] = [boxes[0], boxes[0]];
  label.hidden = false;
  part.querySelector("[data-flame-keys]").hidden = false;

  const show = (one) => { about.textContent = one ? one.title : ""; };
  const focus = (one) => {
    if (!one) return;
    now.group.setAttribute("tabindex", "-1");
    now = one;
    now.group.setAttribute("tabindex", "0");
    now.group.focus({ preventScroll: true });
    now.group.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const isShown = (one) => one.group.getAttribute("display") !== "none";
  const name = (one, w) => {
    let text = one.box.querySelector("text");
    if (!text && w >= 20) {
      text = document.createElementNS(graph.namespaceURI, "text");
      text.setAttribute("x", "3");
      text.setAttribute("y", "13");
      text.textContent = one.title.split(" \u2014 ")[0];
      one.box.append(text);
    }
  };
  const zoom = (to) => {
    zoomed = to;
    const scale = width / Math.max(to.w, 0.1);
    for (const one of boxes) {
      const above = one.y < to.y && inside(to, one);
      const below = one.y >= to.y && inside(one, to);
      if (!above && !below) {
        one.group.setAttribute("display", "none");
        continue;
      }
      one.group.removeAttribute("display");
      const w = above ? width : one.w * scale;
      one.box.setAttribute("x", above ? "0" : String((one.x - to.x) * scale));
      one.box.setAttribute("width", String(w));
      name(one, w);
    }
    reset.hidden = to === boxes[0];
  };

  // The share is that of the widest boxes: what a match calls is in it already.
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    const hits = wanted === "" ? [] : boxes.filter((one) => one.title.split(" \u2014 ")[0].toLowerCase().includes(wanted));
    for (const one of boxes) one.group.classList.toggle("match", hits.includes(one));
    graph.classList.toggle("searched", wanted !== "");
    let [share, end] = [0, 0];
    for (const one of [...hits].sort((a, b) => a.x - b.x || b.w - a.w)) {
      share += Math.max(0, one.x + one.w - Math.max(end, one.x));
      end = Math.max(end, one.x + one.w);
    }
    found.textContent = wanted === "" ? "" : `${hits.length} ${hits.length === 1 ? "box" : "boxes"}, ${((100 * share) / width).toFixed(1)} % of the samples`;
  };
  search.addEventListener("input", find);
  reset.addEventListener("click", () => { zoom(boxes[0]); focus(boxes[0]); });

  const beside = (by) => {
    const row = byRow.get(now.y).filter(isShown);
    return row[row.indexOf(now) + by];
  };
  const above = () => (byRow.get(rows[rows.indexOf(now.y) - 1]) ?? []).find((one) => inside(now, one));
  const below = () => {
    const calls = (byRow.get(rows[rows.indexOf(now.y) + 1]) ?? []).filter((one) => isShown(one) && inside(one, now));
    return calls.sort((a, b) => b.w - a.w)[0];
  };
  const keys = {
    ArrowUp: () => focus(above()),
    ArrowDown: () => focus(below()),
    ArrowLeft: () => focus(beside(-1)),
    ArrowRight: () => focus(beside(1)),
    Home: () => focus(zoomed),
    Enter: () => zoom(now),
    Escape: () => zoom(boxes[0]),
  };
  const boxOf = (event) => {
    const group = event.target.closest?.(".unslide-flame");
    return group && boxes.find((one) => one.group === group);
  };
  graph.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  graph.addEventListener("focusin", (event) => show(boxOf(event)));
  graph.addEventListener("pointerover", (event) => { if (boxOf(event)) show(boxOf(event)); });
  graph.addEventListener("click", (event) => {
    const one = boxOf(event);
    if (!one) return;
    focus(one);
    zoom(one);
  });
})();
