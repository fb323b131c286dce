// Keeps what is on a page up to date: asks for the page again and puts the new part in the place of the old one. The
// server renders and escapes; nothing here makes markup out of values.
"use strict";

const EVERY_MS = 2000;

async function refresh() {
  const old = document.querySelector("[data-live]");
  if (old === null || document.hidden) return;
  const answer = await fetch(location.href, { cache: "no-cache", headers: { Accept: "text/html" } });
  const told = document.getElementById("away");
  if (told !== null) told.remove();
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("[data-live]");
  if (fresh === null || fresh.isEqualNode(old)) return;
  keepWhatPeopleDid(old, fresh);
  old.replaceWith(document.adoptNode(fresh));
}

// Choices, opened details and the focus are the reader's, not the server's.
function keepWhatPeopleDid(old, fresh) {
  for (const chosen of old.querySelectorAll("input:checked")) {
    for (const same of fresh.querySelectorAll(`input[name="${chosen.name}"]`)) {
      if (same.value === chosen.value) same.checked = true;
    }
  }
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  if (focused === null) return;
  const like = (one) => one.tagName === focused.tagName && one.name === focused.name && one.value === focused.value
    && one.getAttribute("href") === focused.getAttribute("href");
  const again = [...fresh.querySelectorAll(focused.tagName)].find(like);
  if (again !== undefined) queueMicrotask(() => again.focus({ preventScroll: true }));
}

function away() {
  if (document.getElementById("away") !== null) return;
  const words = document.createElement("p");
  words.id = "away";
  words.setAttribute("role", "status");
  words.textContent = "The server does not answer: what is shown may be out of date.";
  document.querySelector("main").prepend(words);
}

async function follow() {
  for (;;) {
    await new Promise((done) => setTimeout(done, EVERY_MS));
    try {
      await refresh();
    } catch {
      away();
    }
  }
}

for (const choice of document.querySelectorAll("form.filters select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
follow();
