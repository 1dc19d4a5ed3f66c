/* What the pages do beyond plain HTML: times, copying, dialogs, shortcuts, messages.
   Everything here can be missing: each link and form works without it. */
"use strict";

(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  /* The server writes what the reader likes into <html>; /settings writes the same cookies. */
  const keep = (name, value) => {
    root.dataset[name] = value;
    document.cookie = `fencepost_${name}=${value}; path=/; max-age=31536000; samesite=lax`;
  };

  /* ---- times: against the server's clock, in the form that the reader chose ---- */

  const FORMS = ["relative", "local", "UTC"];
  let offset = Date.parse(root.dataset.now) - Date.now(); // server minus browser
  const now = () => Date.now() + (Number.isFinite(offset) ? offset : 0);
  const form = () => root.dataset.times || FORMS[0];
  const pad = (number, width = 2) => String(number).padStart(width, "0");

  function duration(ms) {
    const s = ms / 1000;
    if (s < 1) return `${Math.round(ms)} ms`;
    if (s < 60) return `${s.toFixed(2)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} m ${pad((s % 60).toFixed(1), 4)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} m`;
    return `${Math.floor(s / 86400)} d ${pad(Math.floor((s % 86400) / 3600))} h`;
  }

  function absolute(moment, { utc, exact }) {
    const shift = utc ? 0 : -moment.getTimezoneOffset();
    const at = new Date(moment.getTime() + shift * 60_000).toISOString();
    const size = Math.abs(shift);
    const zone = shift
      ? `${shift < 0 ? "-" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`
      : "Z";
    return `${at.slice(0, 10)} ${at.slice(11, exact ? 23 : 19)}${zone}`;
  }

  function relative(moment) {
    const gap = now() - moment;
    const s = Math.abs(gap) / 1000;
    if (s >= 86400) return moment.toISOString().slice(0, 10);
    if (s < 1) return "now";
    const words =
      s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} m` : `${Math.floor(s / 3600)} h`;
    return gap > 0 ? `${words} ago` : `in ${words}`;
  }

  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function showTimes() {
    const chosen = form();
    for (const element of all("time[datetime]")) {
      const moment = new Date(element.dateTime);
      const exact = "exact" in element.dataset;
      const text =
        chosen === "relative" && !exact
          ? relative(moment)
          : absolute(moment, { utc: chosen !== "local", exact });
      put(element, text);
    }
  }

  function showOpen() {
    for (const element of all("[data-since]")) {
      put(element, duration(Math.max(0, now() - Date.parse(element.dataset.since))));
    }
  }

  function nameTimeForm() {
    const button = byId("time-form");
    if (button) put(button, form() === "relative" ? "ago" : form());
  }

  function nextTimeForm() {
    keep("times", FORMS[(FORMS.indexOf(form()) + 1) % FORMS.length]);
    nameTimeForm();
    showTimes();
    announce(`Times: ${form()}`);
  }

  document.body.addEventListener("live:hb", ({ detail }) => {
    if (!detail?.now) return;
    offset = Date.parse(detail.now) - Date.now();
    const drift = byId("clock-drift");
    const seconds = Math.round(offset / 1000);
    if (drift) {
      drift.hidden = Math.abs(offset) <= 2000;
      const side = seconds > 0 ? "behind" : "ahead";
      put(drift, `Your clock is ${Math.abs(seconds)} s ${side}; times are the server's.`);
    }
  });

  /* ---- theme ---- */

  function nextTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const shown = root.dataset.theme || (dark ? "dark" : "light");
    const theme = shown === "dark" ? "light" : "dark";
    keep("theme", theme);
    announce(`${theme} theme`);
  }

  /* ---- messages ---- */

  function announce(text) {
    const place = byId("announce");
    if (place) place.textContent = text;
  }

  function toast(text) {
    const place = byId("toast");
    place.textContent = text;
    announce(text);
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => (place.textContent = ""), 4000);
  }

  function alarm(text) {
    byId("alerts").textContent = text;
  }

  document.body.addEventListener("toast", ({ detail }) => toast(detail.text ?? detail.value));

  /* Of regions that refresh themselves, regions.js takes care. */
  const isFilter = (element) => element?.matches?.("form.bar");
  const isRegion = (element) => element?.dataset && "asOf" in element.dataset;

  document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    const status = ctx.response.status;
    if (status === 401 || (status === 422 && !isFilter(ctx.sourceElement))) return;
    if (ctx.sourceElement?.hasAttribute?.(`hx-status:${status}`)) return; // it shows the answer itself
    if (!isRegion(ctx.sourceElement)) {
      alarm(ctx.text.slice(0, 300) || `That did not work (${status}).`);
    }
  });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    if (!ctx || isRegion(ctx.sourceElement)) return;
    alarm("The server did not answer. Nothing is known to have changed; try again.");
  });
  document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    if (isFilter(ctx.sourceElement) && ctx.response.status < 400) alarm("");
  });

  /* ---- copying: the clipboard needs https or localhost, the fallback does not ---- */

  async function copy(button) {
    const source = document.querySelector(button.dataset.copy);
    if (!source) return;
    const text = source.value ?? source.textContent;
    if (!(await write(text.trim()))) return;
    const label = button.textContent;
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (button.textContent = label), 2000);
  }

  async function write(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      box.className = "unseen";
      document.body.append(box);
      box.select();
      const done = document.execCommand("copy");
      box.remove();
      if (!done) prompt("Copy this:", text);
      return done;
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy], [data-close], #theme, #time-form, #help-open");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    else if ("close" in button.dataset) {
      if (!button.closest("dialog")) return; // on a page of its own it is a link back
      event.preventDefault();
      button.closest("dialog").close();
    } else if (button.id === "theme") nextTheme();
    else if (button.id === "time-form") nextTimeForm();
    else byId("help").showModal();
  });

  /* ---- dialogs: a page's own form, shown over the page that asked for it ---- */

  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    const modal = byId("modal");
    const target = ctx.target?.id ?? ctx.target;
    if ((target === "modal-body" || target === "#modal-body") && byId("modal-body").childElementCount) {
      if (!modal.open) modal.showModal();
      (modal.querySelector("[aria-invalid=true]") ?? modal.querySelector("[autofocus]"))?.focus();
    }
    if (target === "results") {
      const line = document.querySelector("#results [data-count]");
      if (line) announce(line.textContent.trim());
    }
    refresh();
  });

  /* ---- shortcuts: single keys, never while typing, and they can be switched off ---- */

  const GO = { o: "/overview", d: "/deliveries", q: "/dlq", s: "/subscriptions", r: "/replays", w: "/workers", a: "/audit" };
  let wantsPlace = 0;

  const click = (selector) => document.querySelector(selector)?.click();

  function step(by) {
    const rows = all("main [data-main]");
    if (!rows.length) return;
    const here = rows.indexOf(document.activeElement);
    const at = here < 0 ? (by > 0 ? 0 : rows.length - 1) : here + by;
    rows[Math.max(0, Math.min(rows.length - 1, at))].focus();
  }

  const KEYS = {
    "?": () => byId("help").showModal(),
    "/": () => byId("search")?.focus(),
    g: () => (wantsPlace = Date.now()),
    j: () => step(1),
    k: () => step(-1),
    "[": () => click("[rel=prev]"),
    "]": () => click("[rel=next]"),
    p: () => document.dispatchEvent(new CustomEvent("fencepost:pause")),
    t: nextTheme,
    u: nextTimeForm,
    c: () => click("[data-copy-id]"),
    i: () => click("[data-rescale]"),
    Escape: () => click("[data-whole]"),
    r: () => click("[data-replay]"),
    ".": () => click("#new-rows button, #new-rows a"),
  };

  const isTyping = (element) =>
    element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (root.dataset.shortcuts === "off" || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]") || !byId("help")) return;
    const place = Date.now() - wantsPlace < 1500 ? GO[event.key] : null;
    wantsPlace = 0;
    if (place) location.assign(place);
    else if (KEYS[event.key]) KEYS[event.key]();
    else return;
    event.preventDefault();
  });

  const choice = byId("shortcuts");
  if (choice) {
    choice.checked = root.dataset.shortcuts !== "off";
    choice.addEventListener("change", () => keep("shortcuts", choice.checked ? "on" : "off"));
  }

  /* ---- start, and after every change of the page ---- */

  function refresh() {
    showTimes();
    showOpen();
    document.dispatchEvent(new CustomEvent("fencepost:tick", { detail: now() }));
  }

  nameTimeForm();
  refresh();
  setInterval(refresh, 1_000);
  document.querySelector("[aria-invalid=true]")?.focus();
})();
