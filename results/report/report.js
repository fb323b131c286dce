"use strict";
// A click on an op, or on any place of the timeline, shows what every node logged around it; so do keys.
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
    for (const details of document.querySelectorAll("details[data-closed]")) {
      details.open = false;
      delete details.dataset.closed;
    }
  });

  if (!packed || !form || typeof DecompressionStream === "undefined") {
    main.dataset.ready = "true";
    return;
  }

  const data = await unpack(JSON.parse(packed.textContent));
  const ops = data.ops, total = ops.index.length;
  const number = form.elements.op, radius = form.elements.radius;
  let chosen = -1;  // the op whose surroundings are shown

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
    const what = word(ops.f, op) + (asked === null ? "" : " " + asked) + (key === null ? "" : " (key " + key + ")");
    const how = kind === "open" ? "was never completed"
      : "ended " + kind + (answered !== null || kind === "ok" ? " with " + answered : "") + (error !== null ? " (" + error + ")" : "")
        + " at " + seconds(end_us(op), 4) + (ops.term[op] >= 0 ? " in term " + ops.term[op] : "");
    return "Op " + ops.index[op] + ": process " + ops.process[op] + " asked " + (word(ops.node, op) ?? "no node")
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
    made.append(element("caption", "What the nodes logged; " + data.log_times + "."));
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
    cursor(op);
  }

  const x = (us, svg) => svg === timeline && zoomer ? zoomer.x(us) : data.left + Math.min(Math.max(us / 1e6 / data.end_s, 0), 1) * (data.right - data.left);

  function bar(svg, kind, op, y, height) {
    svg.querySelector("." + kind)?.remove();
    const mark = document.createElementNS(SVG, "rect"), begin = x(ops.begin_us[op], svg), end = x(end_us(op), svg);
    const measures = { x: begin - 0.75, y, width: Math.max(end - begin, 1.5), height, class: kind };
    for (const [key, value] of Object.entries(measures)) mark.setAttribute(key, value);
    svg.append(mark);
  }

  // A line at the op's time through every picture that has the run's time as its axis.
  function cursor(op) {
    for (const id of ["timeline", "rate", "latency", "quantiles", "rate-by-f", "latency-by-f", "rate-by-node", "latency-by-node", "lag", "clocks"]) {
      const svg = document.getElementById(id);
      if (svg) bar(svg, "cursor", op, 0, svg.viewBox.baseVal.height - 18);
    }
  }

  // --- the timeline by keyboard ---------------------------------------------------------------------------------

  const walk = document.getElementById("walk"), walked = document.getElementById("walked");
  const keys = document.getElementById("walk-keys"), timeline = document.getElementById("timeline");
  let at = -1;  // the op at which the keyboard is
  const zoomer = timeline ? zoomable(timeline, data, ops, remark) : null;

  // What marks an op moves with it.
  function remark() {
    if (chosen >= 0) cursor(chosen);
    if (at >= 0) walkTo(at);
  }

  const lanes = () => [...timeline.querySelectorAll("rect.ground")];
  const laneOf = (op) => data.nodes.indexOf(word(ops.node, op));

  function walkTo(op) {
    at = op;
    zoomer.reveal(end_us(op) / 1e6);
    const lane = lanes()[laneOf(op)], height = timeline.viewBox.baseVal.height - 18;
    bar(timeline, "walker", op, lane ? +lane.getAttribute("y") : 0, lane ? +lane.getAttribute("height") : height);
    const left = x(ops.begin_us[op], timeline) * timeline.getBoundingClientRect().width / timeline.viewBox.baseVal.width;
    if (left < walk.scrollLeft + 60 || left > walk.scrollLeft + walk.clientWidth - 60) walk.scrollLeft = left - walk.clientWidth / 2;
    walked.textContent = sentence(op);
    walked.hidden = false;
  }

  // The op of the next node in that direction that ended nearest to the one at hand.
  function across(by) {
    for (let lane = laneOf(at) + by; lane >= 0 && lane < data.nodes.length; lane += by) {
      const op = nearest(end_us(at), data.nodes[lane]);
      if (op >= 0) return op;
    }
    return at;
  }

  function firstStop() {
    const witness = document.querySelector("tr[id^=op-]");
    return chosen >= 0 ? chosen : Math.max(witness ? opAt(+witness.id.slice(3)) : 0, 0);
  }

  const steps = {
    ArrowRight: () => Math.min(at + 1, total - 1), ArrowLeft: () => Math.max(at - 1, 0),
    ArrowDown: () => across(1), ArrowUp: () => across(-1), Home: () => 0, End: () => total - 1,
  };

  function leave() {
    at = -1;
    timeline.querySelector(".walker")?.remove();
    walked.hidden = keys.hidden = true;
  }

  function onKey(event) {
    if (event.target !== walk || event.ctrlKey || event.altKey || event.metaKey || !total) return;
    if (event.key === "Escape") walk.blur();
    else if (event.key === "Enter" && at >= 0) show(at);
    else if ("+=-0".includes(event.key)) zoomer.acts[event.key === "-" ? "out" : event.key === "0" ? "all" : "in"]();
    else if (event.key in steps) walkTo(at < 0 ? firstStop() : steps[event.key]());
    else return;
    event.preventDefault();
  }

  if (timeline) {
    walk.setAttribute("role", "application");
    walk.setAttribute("aria-roledescription", "timeline");
    walk.addEventListener("keydown", onKey);
    walk.addEventListener("focus", () => { keys.hidden = !walk.matches(":focus-visible"); });
    walk.addEventListener("blur", leave);
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
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const time_us = zoomer.timeAt(place.x) * 1e6;
    const lane = lanes().findIndex((box) => place.y >= +box.getAttribute("y") && place.y <= +box.getAttribute("y") + +box.getAttribute("height"));
    const op = nearest(time_us, lane < 0 ? null : data.nodes[lane]);
    if (op >= 0) show(op);
  }

  timeline?.addEventListener("click", onTimeline);
  timeline?.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(timeline.getScreenCTM().inverse());
    zoomer.zoom(Math.exp(event.deltaY / 300), zoomer.timeAt(place.x));
    event.preventDefault();
  }, { passive: false });
  document.getElementById("zoom")?.addEventListener("click", (event) => zoomer.acts[event.target.dataset.zoom]?.());
  if (zoomer) document.getElementById("zoom").hidden = false;
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
