// Zooms the timeline: moves what the page drew, and draws the ops between two times anew from the data of the page.
function zoomable(svg, data, ops, changed) {
  const SVG = "http://www.w3.org/2000/svg", LEFT = data.left, RIGHT = data.right, WIDE = RIGHT - LEFT, END = data.end_s;
  const EDGE = svg.viewBox.baseVal.width, BIN = 3, LEAST_S = Math.min(0.002, END), WHOLE = { low: 0, high: END };
  const BANDS = { ok: [13, 17], fail: [32, 6], info: [40, 6] };
  const lanes = [...svg.querySelectorAll("rect.ground")].map((lane) => +lane.getAttribute("y"));
  const ruler = svg.querySelector("#ruler"), marks = [...ruler.children], bottom = +marks[0].getAttribute("y1");
  const drawn = document.createElementNS(SVG, "g"), ticks = [...svg.querySelectorAll(".tick, .density")];
  if (ticks.length) ticks[0].before(drawn); else ruler.before(drawn);
  let view = { ...WHOLE }, wanted = false;

  const zoomed = () => view.low > 0 || view.high < END;
  const place = (time_s) => LEFT + (time_s - view.low) / (view.high - view.low) * WIDE;
  const moved = (x) => place((x - LEFT) / WIDE * END);
  const read = (element, name) => +element.getAttribute(name);

  // Each part of the picture with what moves it; called again with the whole run it puts everything back.
  const parts = [];
  function note(element, move) {
    const before = ["x", "x1", "x2", "width", "transform"].map((name) => [name, element.getAttribute(name)]);
    parts.push(() => {
      element.style.display = "";
      for (const [name, value] of before) if (value === null) element.removeAttribute(name); else element.setAttribute(name, value);
      if (zoomed() && !move()) element.style.display = "none";
    });
  }
  function span(rect) {
    const x = read(rect, "x"), end = x + read(rect, "width");
    return () => [Math.max(moved(x), LEFT), Math.min(moved(end), RIGHT)];
  }
  function stretch(rect) {
    const inside = span(rect);
    note(rect, () => {
      const [begin, end] = inside();
      rect.setAttribute("x", begin.toFixed(1));
      rect.setAttribute("width", Math.max(end - begin, 1).toFixed(1));
      return end >= LEFT && begin <= RIGHT && end >= begin;
    });
    return inside;
  }
  function shift(element, x) {
    const wide = element.matches("text") ? element.getComputedTextLength() : 0;
    note(element, () => {
      const to = moved(x);
      element.setAttribute("transform", `translate(${(to - x).toFixed(1)} 0)`);
      return to >= LEFT && to + wide <= EDGE;
    });
  }
  function label(text, host) {
    const away = read(text, "x") - read(host, "x"), inside = span(host), wide = text.getComputedTextLength();
    note(text, () => {
      const [begin, end] = inside();
      text.setAttribute("x", (begin + away).toFixed(1));
      return end - begin >= away + wide;
    });
  }
  const from = (path) => parseFloat(path.getAttribute("d").slice(1));
  for (const element of svg.children) {
    if (element === ruler || element === drawn || element.matches("title, style, .lane, .ground, .tick, .density")) continue;
    const first = element.querySelector(":scope > rect, :scope > path");
    if (element.matches("rect")) stretch(element);
    else if (element.matches("line")) shift(element, read(element, "x1"));
    else if (element.matches("path")) shift(element, from(element));
    else if (element.matches("text.on") && element.previousElementSibling.matches("rect")) label(element, element.previousElementSibling);
    else if (element.matches("text")) shift(element, read(element, "x"));
    else if (element.matches("a") && first.matches("rect.mark")) {
      stretch(first);
      for (const text of element.querySelectorAll("text")) shift(text, read(text, "x"));
    } else if (element.matches("a")) shift(element, first.matches("path") ? from(first) : read(first, "x"));
  }

  function make(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function drawOps() {
    const low = view.low * 1e6, high = view.high * 1e6, found = lanes.map(() => ({ ok: [], fail: [], info: [] }));
    const lane = new Map(data.nodes.map((node, number) => [node, number])), nodes = ops.node.texts.map((node) => lane.get(node));
    for (let op = 0; op < ops.index.length; op++) {
      const end = ops.took_us[op] < 0 ? ops.begin_us[op] : ops.begin_us[op] + ops.took_us[op], at = nodes[ops.node.at[op]];
      const kind = data.kinds[ops.kind[op]], band = kind in BANDS ? kind : "info";
      if (at !== undefined && lanes[at] !== undefined && ops.begin_us[op] <= high && end >= low) found[at][band].push([ops.begin_us[op] / 1e6, end / 1e6]);
    }
    for (const [band, [top, height]] of Object.entries(BANDS)) {
      const dense = found.some((of) => of[band].length > WIDE);
      const counts = found.map((of) => (dense ? counted(of[band]) : []));
      const most = Math.max(1, ...counts.map((of) => Math.max(0, ...of)));
      found.forEach((of, number) => {
        const y = lanes[number] + top;
        const d = dense ? bars(counts[number], most, y + height, height) : of[band].map((op) => stroke(op, y, height)).join("");
        if (d) make(drawn, "path", { class: dense ? `density density-${band}` : `tick tick-${band}`, d });
      });
    }
  }
  function counted(of) {
    const counts = new Array(Math.floor(WIDE / BIN)).fill(0);
    for (const [, end] of of) {
      const slot = Math.floor((place(end) - LEFT) / BIN);
      if (slot >= 0 && slot < counts.length) counts[slot]++;
    }
    return counts;
  }
  function bars(counts, most, foot, height) {
    return counts.map((count, slot) => {
      const tall = Math.max(Math.sqrt(count / most) * height, 1).toFixed(1);
      return count ? `M${LEFT + slot * BIN} ${foot}v-${tall}h${BIN}v${tall}z` : "";
    }).join("");
  }
  // An op that is wide enough shows from when to when it took, with its tick at the end.
  function stroke([begin, end], y, height) {
    const x = Math.max(place(begin), LEFT), to = place(end);
    const tick = to <= RIGHT ? `M${to.toFixed(1)} ${y}v${height}` : "", until = Math.min(to, RIGHT);
    return until - x >= 4 ? `${tick}M${x.toFixed(1)} ${y + height / 2}H${until.toFixed(1)}` : tick;
  }

  function drawRuler() {
    const least = (view.high - view.low) / 10, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= least * (1 - 1e-9));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    make(ruler, "line", { class: "axis", x1: LEFT, x2: RIGHT, y1: bottom, y2: bottom });
    for (let i = Math.ceil(view.low / step - 1e-9); i * step <= view.high + step * 1e-9; i++) {
      const x = place(i * step).toFixed(1);
      make(ruler, "line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 });
      const text = make(ruler, "text", { x, y: bottom + 18, "text-anchor": "middle" }, (i * step).toFixed(digits) + " s");
      text.setAttribute("x", Math.min(x, EDGE - 1 - text.getComputedTextLength() / 2).toFixed(1));
    }
  }

  function draw() {
    for (const put of parts) put();
    for (const tick of ticks) tick.style.display = zoomed() ? "none" : "";
    drawn.replaceChildren();
    ruler.replaceChildren(...(zoomed() ? [] : marks));
    if (zoomed()) { drawOps(); drawRuler(); }
    changed();
  }
  function show(low, high) {
    const span = Math.min(Math.max(high - low, LEAST_S), END), begin = Math.min(Math.max(low, 0), END - span);
    view = { low: begin, high: begin + span };
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => { wanted = false; draw(); });
  }
  const timeAt = (x) => view.low + (x - LEFT) / WIDE * (view.high - view.low);
  const zoom = (factor, at = (view.low + view.high) / 2) => show(at - (at - view.low) * factor, at + (view.high - at) * factor);
  const pan = (part) => show(view.low + (view.high - view.low) * part, view.high + (view.high - view.low) * part);
  const reveal = (time_s) => {
    const half = (view.high - view.low) / 2;
    if (time_s < view.low || time_s > view.high) show(time_s - half, time_s + half);
  };
  const acts = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.4), right: () => pan(0.4), all: () => show(0, END) };
  return { acts, zoom, pan, timeAt, reveal, x: (us) => Math.min(Math.max(place(us / 1e6), LEFT), RIGHT) };
}
