/* A list that follows what is new, where the reader asked for it and nothing of theirs would move:
   at the top, with nothing selected, focused or pointed at. Otherwise it says how much is new. */
"use strict";

(() => {
  const KEY = "fencepost.follow";
  const isOn = () => sessionStorage.getItem(KEY) === "1";
  const IN_USE = "#rows :focus, #rows:hover, #rows input:checked, dialog[open]";

  function show() {
    const box = document.getElementById("follow");
    if (box) box.checked = isOn();
  }

  function follow() {
    const news = document.querySelector("#new-rows a");
    if (news && isOn() && scrollY === 0 && !document.querySelector(IN_USE)) news.click();
  }

  document.addEventListener("change", (event) => {
    if (event.target.id !== "follow") return;
    sessionStorage.setItem(KEY, event.target.checked ? "1" : "0");
    follow();
  });
  document.addEventListener("htmx:after:swap", () => {
    show();
    follow();
  });
  show();
})();
