/* Live updates: one EventSource per visible tab. It carries signals; the page then asks for its
   regions again, because each of them listens on <body> for the events that are fired here. */
"use strict";

(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const SIGNALS = ["overview", "delivery", "dlq", "replay", "resync"];
  const SILENCE = 45_000; // three heartbeats
  const HIDDEN = 30_000;
  const SOON = 5_000;
  const IDLE = 60_000;
  const PAUSED = "fencepost.paused";

  let source = null;
  let opened = ""; // the topics that it was opened with
  let last = ""; // id of the newest event: a new EventSource does not remember it
  let failures = 0;
  let input = Date.now();
  const timers = {};

  const fire = (name, detail) =>
    document.body.dispatchEvent(new CustomEvent(`live:${name}`, { detail }));
  const isPaused = () => sessionStorage.getItem(PAUSED) === "1";
  const isOpen = () => source && source.readyState !== EventSource.CLOSED;
  const after = (name, milliseconds, action) => {
    clearTimeout(timers[name]);
    timers[name] = setTimeout(() => {
      delete timers[name];
      action();
    }, milliseconds);
  };
  const stop = (...names) =>
    names.forEach((name) => {
      clearTimeout(timers[name]);
      delete timers[name];
    });

  const topics = () =>
    [...new Set([...document.querySelectorAll("[data-topic]")].map((e) => e.dataset.topic))]
      .sort()
      .join(",");

  function show(state) {
    const before = root.dataset.live;
    if (before === state) return;
    root.dataset.live = state;
    const pill = byId("live-pill");
    if (!pill) return;
    pill.textContent = state;
    pill.setAttribute("aria-pressed", String(state === "paused"));
    // Not the first state, nor a break that may be over before it is read out.
    if (before && state !== "reconnecting" && state !== "hidden" && pill.dataset.said !== state) {
      if (pill.dataset.said) byId("announce").textContent = `Live updates: ${state}`;
      pill.dataset.said = state;
    }
  }

  function close() {
    source?.close();
    source = null;
    opened = "";
    stop("silence", "retry");
  }

  function open() {
    close();
    opened = topics();
    if (!opened || isPaused()) return;
    const url = new URL("/live", location.origin);
    url.searchParams.set("t", opened);
    if (last) url.searchParams.set("last", last);
    source = new EventSource(url);
    source.addEventListener("open", () => {
      failures = 0;
      show("live");
      stop("poll");
      listen();
    });
    source.addEventListener("error", () => lost(!isOpen()));
    source.addEventListener("hb", (event) => heard(event, (data) => fire("hb", data)));
    source.addEventListener("bye", () => open());
    for (const name of SIGNALS) {
      source.addEventListener(name, (event) => heard(event, (data) => fire(name, data)));
    }
    listen();
  }

  /* After a time in which nothing was asked for, the page has to be refreshed as a whole. */
  function openAnew() {
    last = "";
    open();
  }

  function heard(event, tell) {
    last = event.lastEventId || last;
    listen();
    if (!isPaused()) tell(JSON.parse(event.data));
  }

  function listen() {
    after("silence", SILENCE, () => lost(true));
  }

  /* The browser tries again by itself after a broken connection, but never after a refusal. */
  function lost(isOver) {
    if (isPaused() || document.hidden) return;
    show(failures ? "polling" : "reconnecting");
    if (!timers.poll) poll();
    if (!isOver) return;
    close();
    const wait = Math.min(30_000, 500 * 2 ** failures++) * (0.7 + 0.6 * Math.random());
    after("retry", wait, open);
  }

  /* Every 5 s while somebody is at it, every minute when nobody has touched the page for one. */
  function poll() {
    after("poll", Date.now() - input > IDLE ? IDLE : SOON, () => {
      if (isPaused() || root.dataset.live === "live") return;
      show("polling");
      fire("poll");
      poll();
    });
  }

  function toggle() {
    if (isPaused()) {
      sessionStorage.removeItem(PAUSED);
      show("reconnecting");
      openAnew();
    } else {
      sessionStorage.setItem(PAUSED, "1");
      close();
      stop("poll", "hidden");
      show("paused");
    }
  }

  function leave() {
    after("hidden", HIDDEN, () => {
      close();
      stop("poll");
      show("hidden");
    });
  }

  document.addEventListener("visibilitychange", () => {
    if (isPaused()) return;
    if (document.hidden) leave();
    else {
      stop("hidden");
      if (!isOpen()) openAnew();
    }
  });
  for (const name of ["pointerdown", "keydown", "pointermove", "scroll"]) {
    addEventListener(name, () => (input = Date.now()), { passive: true });
  }
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && openAnew());
  document.addEventListener("htmx:after:swap", () => {
    if (source && topics() !== opened) open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#live-pill")) toggle();
  });
  document.addEventListener("fencepost:pause", toggle);

  if (isPaused()) show("paused");
  else {
    show("reconnecting");
    open();
    if (document.hidden) leave();
  }
})();
