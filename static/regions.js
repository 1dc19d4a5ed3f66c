/* Regions that refresh themselves: what one shows stays until there is something newer, and says
   how old it is when it cannot be refreshed. A pause asks for nothing, whatever was under way. */
"use strict";

(() => {
  const alerts = document.getElementById("alerts");
  const isRegion = (element) => element?.dataset && "asOf" in element.dataset;
  const isPaused = () => document.documentElement.dataset.live === "paused";

  document.addEventListener("htmx:before:request", (event) => {
    if (isPaused() && isRegion(event.detail.ctx.sourceElement)) event.preventDefault();
  });
  document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    if (ctx.response.status !== 401) stale(ctx.sourceElement, ctx.response.status);
  });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    stale(ctx?.sourceElement, "no answer");
  });

  function stale(region, why) {
    if (!isRegion(region)) return;
    const seen = new Date(region.dataset.asOf).toISOString().slice(11, 19);
    const next = isPaused() ? "" : " Next try in 5 s.";
    alerts.textContent = `Could not refresh (${why}). Showing data as of ${seen}Z.${next}`;
    region.classList.add("stale");
    clearTimeout(region.retry);
    region.retry = setTimeout(() => {
      if (region.isConnected) region.dispatchEvent(new CustomEvent("retry"));
    }, 5_000);
  }

  document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    const region = ctx.sourceElement;
    if (!isRegion(region) || ctx.response.status >= 400) return;
    const date = ctx.response.headers.get("date"); // fresh even when the body came from the cache
    if (date) region.dataset.asOf = new Date(date).toISOString();
    if (!region.classList.contains("stale")) return;
    region.classList.remove("stale");
    if (!document.querySelector(".stale")) alerts.textContent = "";
  });
})();
