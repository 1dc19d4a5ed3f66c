/* Selecting rows of a list: the page by its head, ranges with Shift, all that match by the filter.
   Without this the checkboxes are plain fields of a form, and work all the same. */
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const boxes = () => [...document.querySelectorAll("input[name=pick]")];
  let last = null; // the end of the last range
  let scope = byId("selection")?.dataset.scope;

  function set(box, checked) {
    box.checked = checked;
    last = box;
  }

  function setRange(box, checked) {
    const rows = boxes();
    const from = rows.includes(last) ? rows.indexOf(last) : rows.indexOf(box);
    const [low, high] = [from, rows.indexOf(box)].sort((one, other) => one - other);
    rows.slice(low, high + 1).forEach((each) => (each.checked = checked));
    last = box;
  }

  function clear() {
    boxes().forEach((box) => (box.checked = false));
    if (byId("pick-all")) byId("pick-all").checked = false;
    last = null;
    show();
  }

  function show() {
    const form = byId("selection");
    if (!form) return;
    const rows = boxes();
    const picked = rows.filter((box) => box.checked).length;
    const all = byId("pick-all");
    const head = byId("pick-page");
    const isWhole = picked === rows.length;
    // All that match are more than the page, and were asked for in so many words.
    if (!isWhole) all.checked = false;
    const some = all.checked ? `all ${form.dataset.all}` : picked;
    head.checked = isWhole;
    head.indeterminate = picked > 0 && !isWhole;
    form.classList.toggle("some", picked > 0);
    const isMore = form.dataset.all !== form.dataset.shown;
    form.querySelector("[data-all-line]").hidden = !(isWhole && isMore);
    const text = all.checked
      ? `All ${form.dataset.all} that match are selected.`
      : picked
        ? `${picked} selected on this page.`
        : "Nothing is selected.";
    if (byId("picked").textContent !== text) byId("picked").textContent = text;
    for (const button of form.querySelectorAll("[data-verb]")) {
      button.disabled = !picked;
      button.querySelector("span").textContent = picked
        ? `${button.dataset.verb} ${some}…`
        : `${button.dataset.verb} selected…`;
    }
  }

  document.addEventListener("click", ({ target, shiftKey }) => {
    if (!target.matches?.("input[name=pick]")) return;
    if (shiftKey) setRange(target, target.checked);
    else last = target;
    show();
  });

  document.addEventListener("change", ({ target }) => {
    if (target.id === "pick-page") boxes().forEach((box) => (box.checked = target.checked));
    if (target.id === "pick-page" || target.id === "pick-all" || target.name === "pick") show();
  });

  /* Before the page's own shortcuts: what stands in the focused row comes first. */
  document.addEventListener(
    "keydown",
    (event) => {
      const { key, target } = event;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.documentElement.dataset.shortcuts === "off") return;
      if (document.querySelector("dialog[open]")) return;
      if (target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
      const row = target.closest("tbody tr");
      const box = row?.querySelector("input[name=pick]");
      const replay = row?.querySelector("[data-replay]");
      const isX = key.toLowerCase() === "x" && box; // whatever Caps Lock makes of it
      if (isX && event.shiftKey) setRange(box, true);
      else if (isX) set(box, !box.checked);
      else if (key === "Escape" && boxes().some((each) => each.checked)) clear();
      else if (key === "r" && replay) replay.click();
      else return;
      show();
      event.preventDefault();
    },
    true,
  );

  /* Another filter is another list; a refresh of the same one keeps what is selected. */
  document.addEventListener("htmx:after:swap", () => {
    const now = byId("selection")?.dataset.scope;
    if (now !== scope) clear();
    scope = now;
    show();
  });
  addEventListener("pageshow", show);
  show();
})();
