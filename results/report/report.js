"use strict";
// A click on an op, or on any place of the timeline, shows what every node logged around it.
(async () => {
  const SHOWN_MAX = 400, SVG = "http://www.w3.org/2000/svg", NO_TIME = -1e12;
  const main = document.querySelector("main"), packed = document.getElementById("data");
  const form = document.getElementById("inspect"), told = document.getElementById("told");

  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open]):not(.raw)")) {
      details.open = true;
      details.dataset.closed = "true";
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-closed]")) details.open = false;
  });

  if (!packed || !form || typeof DecompressionStream === "undefined") {
    main.dataset.ready = "true";
    return;
  }

  const data = await unpack(JSON.parse(packed.textContent));
  const ops = data.ops, total = ops.index.length;
  const number = form.elements.op, radius = form.elements.radius;
  let chosen = -1;

  // --- data -----------------------------------------------------------------------------------------------------

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const found = JSON.parse(await new Response(stream).text());
    summed(found.ops.index);
    summed(found.ops.begin_us);
    for (const log of found.logs) summed(log.time_us);
    return found;
  }

  function summed(numbers) {
    for (let i = 1; i < numbers.length; i++) numbers[i] += numbers[i - 1];
  }

  const word = (column, op) => (column.at[op] < 0 ? null : column.texts[column.at[op]]);
  const end_us = (op) => (ops.took_us[op] < 0 ? ops.begin_us[op] : ops.begin_us[op] + ops.took_us[op]);
  const seconds = (us, digits = 3) => (us / 1e6).toFixed(digits) + " s";

  // The op whose invocation or completion has this index.
  function opAt(index) {
    return ops.index.findIndex((begun, op) => begun === index || (ops.until[op] >= 0 && begun + ops.until[op] === index));
  }

  // The op that ended nearest to a time, at a node where one is given.
  function nearest(time_us, node) {
    let best = -1, least = Infinity;
    for (let op = 0; op < total; op++) {
      if (node !== null && word(ops.node, op) !== node) continue;
      const away = Math.abs(end_us(op) - time_us);
      if (away < least) [best, least] = [op, away];
    }
    return best;
  }

  // --- what is shown --------------------------------------------------------------------------------------------

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function sentence(op) {
    const key = word(ops.key, op), asked = word(ops.asked, op), answered = word(ops.answered, op);
    const error = word(ops.error, op), kind = data.kinds[ops.kind[op]];
    const what = word(ops.f, op) + (asked === null ? "" : " " + asked) + (key === null ? "" : " of key " + key);
    const how = kind === "open" ? "was never completed"
      : "ended " + kind + (answered !== null || kind === "ok" ? " with " + answered : "") + (error !== null ? " (" + error + ")" : "")
        + " at " + seconds(end_us(op), 4) + (ops.term[op] >= 0 ? " in term " + ops.term[op] : "");
    return "Op " + ops.index[op] + ": process " + ops.process[op] + " asked " + (word(ops.node, op) ?? "nobody")
      + " to " + what + " at " + seconds(ops.begin_us[op], 4) + "; it " + how + ".";
  }

  // Lines of all nodes around a stretch of time, with the last one of each node before it, in the order of time.
  function around(low, high) {
    const found = [];
    data.logs.forEach((log, place) => {
      let before = -1;
      for (let i = 0; i < log.text.length; i++) {
        const at = log.time_us[i];
        if (at <= NO_TIME / 2) continue;
        if (at < low) before = i;
        else if (at <= high) found.push({ place, i, at });
      }
      if (before >= 0) found.push({ place, i: before, at: log.time_us[before] });
    });
    return found.sort((a, b) => a.at - b.at || a.place - b.place || a.i - b.i);
  }

  function table(lines, origin_us, node) {
    const made = element("table", null), body = element("tbody", null), head = element("tr", null);
    made.append(element("caption", "What the nodes logged, by their own clocks; seconds are from the op's invocation."));
    for (const [name, kind] of [["at", "n"], ["from the op", "n"], ["node", ""], ["line", ""]]) {
      head.append(element("th", name, { class: kind, scope: "col" }));
    }
    const top = element("thead", null);
    top.append(head);
    for (const { place, i, at } of lines.slice(0, SHOWN_MAX)) {
      const log = data.logs[place], row = element("tr", null, { class: log.node === node ? "asked" : "" });
      const away = (at - origin_us) / 1e6;
      row.append(element("td", seconds(at), { class: "n" }));
      row.append(element("td", (away < 0 ? "−" : "+") + Math.abs(away).toFixed(3), { class: "n" }));
      row.append(element("td", log.node, { class: "node" }));
      const line = element("td", null, { class: "wrap" });
      if (log.gap[i]) line.append(element("span", "… " + log.gap[i] + " lines of " + log.file + " left out … ", { class: "soft" }));
      line.append(element("code", log.text[i]));
      row.append(line);
      body.append(row);
    }
    made.append(top, body);
    return made;
  }

  function show(op) {
    chosen = op;
    number.value = ops.index[op];
    const begin = ops.begin_us[op], end = end_us(op), reach = +radius.value * 1e6;
    const lines = around(begin - reach, end + reach);
    told.replaceChildren(element("p", sentence(op), { class: "chosen" }));
    if (lines.length) {
      const scroll = element("div", null, { class: "scroll", tabindex: "0", role: "group", "aria-label": "Log lines" });
      scroll.append(table(lines, begin, word(ops.node, op)));
      told.append(scroll);
    } else {
      told.append(element("p", "No node left a log with times around it.", { class: "soft" }));
    }
    if (lines.length > SHOWN_MAX) {
      told.append(element("p", (lines.length - SHOWN_MAX) + " more lines are not shown: choose a shorter stretch.", { class: "soft" }));
    }
    cursor(begin, end);
  }

  // A line at the op's time through every picture that has the run's time as its axis.
  function cursor(begin, end) {
    for (const id of ["timeline", "rate", "latency"]) {
      const svg = document.getElementById(id);
      if (!svg) continue;
      svg.querySelector(".cursor")?.remove();
      const x = (us) => data.left + Math.min(Math.max(us / 1e6 / data.end_s, 0), 1) * (data.right - data.left);
      const mark = document.createElementNS(SVG, "rect");
      const measures = { x: x(begin) - 0.75, y: 0, width: Math.max(x(end) - x(begin), 1.5), height: svg.viewBox.baseVal.height - 18 };
      for (const [key, value] of Object.entries(measures)) mark.setAttribute(key, value);
      mark.setAttribute("class", "cursor");
      svg.append(mark);
    }
  }

  // --- ways to an op --------------------------------------------------------------------------------------------

  function fromAddress() {
    const index = /^#op-(\d+)$/.exec(location.hash)?.[1];
    if (index === undefined) return;
    const op = opAt(+index);
    if (op < 0) {
      told.replaceChildren(element("p", "Op " + index + " is not in this page.", { class: "chosen" }));
    } else {
      show(op);
    }
    form.scrollIntoView({ block: "start" });
    told.focus({ preventScroll: true });
  }

  function onTimeline(event) {
    if (event.target.closest("a")) return;
    const svg = event.currentTarget;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const time_us = (at.x - data.left) / (data.right - data.left) * data.end_s * 1e6;
    const lanes = [...svg.querySelectorAll("rect.ground")];
    const lane = lanes.findIndex((box) => at.y >= +box.getAttribute("y") && at.y <= +box.getAttribute("y") + +box.getAttribute("height"));
    const op = nearest(time_us, lane < 0 ? null : data.nodes[lane]);
    if (op >= 0) show(op);
  }

  document.getElementById("timeline")?.addEventListener("click", onTimeline);
  window.addEventListener("hashchange", fromAddress);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("a[href^='#op-']") && event.target.closest("a").getAttribute("href") === location.hash) fromAddress();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const op = opAt(+number.value);
    if (op >= 0) show(op); else told.replaceChildren(element("p", "No client op of this page has that index.", { class: "chosen" }));
  });
  radius.addEventListener("change", () => { if (chosen >= 0) show(chosen); });
  for (const [name, by] of [["previous", -1], ["next", 1]]) {
    form.querySelector("[data-do=" + name + "]").addEventListener("click", () => {
      if (total) show(Math.min(Math.max(chosen < 0 ? 0 : chosen + by, 0), total - 1));
    });
  }
  form.hidden = false;
  fromAddress();
  main.dataset.ready = "true";
})();
