/* Open bars of a waterfall grow; a region whose axis has no room left asks to be drawn anew. */
"use strict";

document.addEventListener("fencepost:tick", ({ detail: now }) => {
  for (const bar of document.querySelectorAll("[data-grows]")) {
    const { grows, from, room } = bar.dataset;
    // Drawn anew, a bar keeps its element.
    if (bar.drawnFrom !== from) Object.assign(bar, { drawn: now, drawnFrom: from });
    const width = Number(from) + (Number(grows) * (now - bar.drawn)) / 1000;
    bar.setAttribute("width", `${Math.min(width, room)}%`);
    const isDue = width >= room && now - (bar.asked ?? 0) > 5000;
    if (!isDue || document.documentElement.dataset.live === "paused") continue;
    bar.asked = now;
    bar.closest("[data-topic]").dispatchEvent(new CustomEvent("retry"));
  }
});
