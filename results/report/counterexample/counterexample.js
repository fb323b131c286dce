"use strict";
// Draws any view of the ops, in the measures and classes of drawing.py, which draws the first one.
(async () => {
  const WIDTH = 1180, LEFT = 104, RIGHT = 12, ROW = 38, BAR = 22, FAULT = 18, RIBBON = 24, FLAG = 18, OVERVIEW = 26;
  const ROWS_MAX = 40, NAMED = 24, LANE_FONT = 12.5, LETTERS_MIN = 5, PIN = 7.5, PIN_LETTER = 6.4, BARS_MAX = 1500, LEAST = 12, INFO = 2, CRASHED = -1;
  const KINDS = ["ok", "fail", "info"], STYLED = ["partition", "packet", "kill", "bounce", "power", "pause"];
  const FONTS = { on: [11, 0], label: [12, 0], "state-name": [12, 1], failing: [12.5, 1] }, FIRST = 32;
  const INNER = WIDTH - LEFT - RIGHT;
  const SVG = "http://www.w3.org/2000/svg";

  const data = await unpack(JSON.parse(document.getElementById("ops").textContent));
  const svg = document.getElementById("picture"), told = document.getElementById("told");
  const total = data.begin.length;
  const failingEnd = data.end[data.failing] < 0 ? data.ranks - 1 : data.end[data.failing];
  const witness = new Set(data.witness);
  const crashed = range(total).filter((op) => data.kind[op] === INFO);
  const longest = longestUntil();
  const home = { low: data.low, high: data.high };
  let view = { ...home }, chosen = 0, pinned = -1, wanted = false;

  // --- data -----------------------------------------------------------------------------------------------------

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const found = JSON.parse(await new Response(stream).text());
    for (const name of ["begin", "index", "time_us"]) if (found[name]) summed(found[name]);
    found.end = found.end.map((length, op) => (length < 0 ? -1 : found.begin[op] + length));
    return found;
  }

  function summed(numbers) {
    for (let i = 1; i < numbers.length; i++) numbers[i] += numbers[i - 1];
  }

  function range(count) {
    return Array.from({ length: count }, (_, i) => i);
  }

  // For each op the latest end of it and all before it: where a search for ops in a view may stop looking back.
  function longestUntil() {
    const latest = new Array(total);
    for (let op = 0, so_far = -1; op < total; op++) {
      if (data.kind[op] !== INFO) so_far = Math.max(so_far, data.end[op]);
      latest[op] = so_far;
    }
    return latest;
  }

  // The first op in order for which `test` holds, which once true stays true.
  function first(test) {
    let low = 0, high = total;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) high = middle; else low = middle + 1;
    }
    return low;
  }

  const path = () => data.paths[chosen];
  const isMarked = (op) => op === data.failing || witness.has(op);

  function marked() {
    const found = new Set([data.failing, ...witness]);
    if (path()) for (const op of path().steps) found.add(op);
    return found;
  }

  function inView() {
    const from = first((op) => longest[op] >= view.low), until = first((op) => data.begin[op] > view.high);
    const ahead = marked(), shown = new Map(), gone = [];
    const put = (op) => {
      if (!shown.has(data.process[op])) shown.set(data.process[op], []);
      shown.get(data.process[op]).push(op);
    };
    let count = 0;
    for (const op of crashed) {
      if (op >= until) break;
      if (Math.max(data.end[op], data.begin[op]) < view.low && !ahead.has(op)) gone.push(op);
      else { put(op); count++; }
    }
    for (let op = from; op < until; op++) {
      if (data.kind[op] !== INFO && data.end[op] >= view.low) { put(op); count++; }
    }
    for (const ops of shown.values()) ops.sort((a, b) => a - b);
    const lead = data.process[data.failing], need = new Set([...ahead].map((op) => data.process[op]));
    const rank = (process) => [process !== lead, !need.has(process), process];
    const by = (key) => (a, b) => { const x = key(a), y = key(b); for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return x[i] - y[i]; return 0; };
    const rows = [...shown.keys()].sort(by(rank)).slice(0, ROWS_MAX).sort(by((p) => [p !== lead, p]));
    return { rows: gone.length ? [CRASHED, ...rows] : rows, shown, gone, count };
  }

  // --- drawing --------------------------------------------------------------------------------------------------

  function make(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, typeof value === "number" ? +value.toFixed(1) : value);
    }
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function place(rank, low = view.low, high = view.high) {
    return LEFT + (Math.min(Math.max(rank, low), high) - low) / (high - low) * INNER;
  }

  // Widths as in letters.py: the first view must not change when the script draws it.
  const wide = (text, bold) => [...text].reduce((sum, letter) => sum + (data.widths[bold][letter.codePointAt(0) - FIRST] ?? data.widths[2]), 0);
  const wideFailing = (text) => wide(text, FONTS.failing[1]) * FONTS.failing[0] / 1000;

  function cut(text, room, [size, bold], least = 2) {
    if (wide(text, bold) * size <= room * 1000) return text;
    let left = room * 1000 - data.widths[2] * size, kept = "", count = 0;
    for (const letter of text) {
      left -= wide(letter, bold) * size;
      if (left < 0) return count + 1 >= least ? kept + "…" : "";
      kept += letter;
      count++;
    }
    return kept + "…";
  }

  function named(text) {
    const letters = [...text];
    return letters.length <= NAMED ? text : letters.slice(0, NAMED - 1).join("") + "…";
  }

  function fitted(parent, text, x, y, room, style, least = 2) {
    const shown = cut(text, room, FONTS[style], least);
    if (shown) make(parent, "text", { class: style, x, y }, shown);
  }

  function gutter(text, y) {
    make(svg, "text", { class: "lane", x: LEFT - 8, y, "text-anchor": "end" }, cut(text, LEFT - 10, [LANE_FONT, 0]));
  }

  function draw() {
    const found = inView();
    svg.querySelectorAll(":scope > :not(title)").forEach((element) => element.remove());
    const faults = data.faults.filter(([, begin, end]) => begin < view.high && end > view.low);
    const lanes = data.kinds.map((_, kind) => kind).filter((kind) => faults.some((fault) => fault[0] === kind));
    const flagged = 6 + FAULT * lanes.length + (lanes.length ? 6 : 0), ribbon = flagged + FLAG;
    const top = ribbon + RIBBON + 8, bottom = top + ROW * found.rows.length + 2;
    for (const [, begin, end] of faults) {
      make(svg, "rect", { class: "shade", x: place(begin), y: 6, width: place(end) - place(begin), height: bottom - 6 });
    }
    drawFaults(faults, lanes);
    if (path()) drawStates(ribbon);
    drawRows(found, top);
    if (failingEnd >= view.low && failingEnd <= view.high) {
      const x = place(failingEnd);
      make(svg, "line", { class: "wall", x1: x, x2: x, y1: flagged + FLAG - 3, y2: bottom });
      const flag = cut(`✗ ${data.labels[data.label[data.failing]]}`, INNER, FONTS.failing);
      make(svg, "text", { class: "flag", x: Math.max(Math.min(x - 4, WIDTH - RIGHT - wideFailing(flag)), LEFT), y: flagged + 11 }, flag);
    }
    if (path()) drawOrder(found, top);
    drawAxis(bottom);
    drawOverview(bottom + 30);
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${bottom + 30 + OVERVIEW + 4}`);
  }

  function faultStyle(kind) {
    return STYLED.includes(data.kinds[kind]) ? `fault-${data.kinds[kind]}` : "fault-other";
  }

  function drawFaults(faults, lanes) {
    lanes.forEach((kind, lane) => gutter(data.kinds[kind], 6 + lane * FAULT + 12));
    for (const [kind, begin, end, target, words, verified] of faults) {
      const x = place(begin), y = 6 + lanes.indexOf(kind) * FAULT, width = Math.max(place(end) - x, 2);
      const box = make(svg, "rect", { class: faultStyle(kind) + (verified ? "" : " unsure"), x, y, width, height: FAULT - 3, rx: 3 });
      make(box, "title", {}, words);
      fitted(svg, target, x + 5, y + 11.5, width - 8, "on");
    }
  }

  function drawStates(y) {
    gutter("state", y + 16);
    const { begins, states, points } = path();
    let begin = data.since, state = begins, step = 0;
    const stretch = (end) => {
      if (end <= view.low || begin >= view.high) return;
      const x = place(begin), width = place(end) - x;
      const box = make(svg, "rect", { class: "state", x, y, width: Math.max(width, 1), height: RIBBON - 2, rx: 3 });
      make(box, "title", {}, `the state is ${state}${step ? ` after step ${step}` : " when this order begins"}`);
      fitted(svg, state, x + 5, y + 15, width - 8, "state-name");
    };
    points.forEach((point, number) => {
      if (states[number] === state) return;
      stretch(point);
      [begin, state, step] = [point, states[number], number + 1];
    });
    stretch(failingEnd);
  }

  function drawRows(found, top) {
    const dense = found.count > BARS_MAX;
    found.rows.forEach((process, row) => {
      const y = top + row * ROW;
      make(svg, "rect", { class: "ground", x: LEFT, y, width: INNER, height: ROW - 3 });
      if (process === CRASHED) return drawCrashed(found.gone, y);
      const ops = found.shown.get(process), node = data.nodes[data.node[ops[0]]];
      gutter(node ? `${process} · ${node}` : `process ${process}`, y + ROW - 14);
      if (dense) drawDense(ops, y + ROW - BAR - 6);
      const taken = ops.includes(data.failing) ? failingLabel(ops) : null;
      ops.forEach((op, position) => {
        let after = place(position + 1 < ops.length ? data.begin[ops[position + 1]] : view.high);
        if (taken && op !== data.failing && place(data.begin[op]) < taken.end) after = Math.min(after, taken.begin);
        if (!dense || isMarked(op)) drawBar(op, y + ROW - BAR - 6, after);
      });
      if (taken) make(svg, "text", { class: taken.style, x: taken.begin, y: y + ROW - BAR - 6 + 17 }, taken.text);
    });
  }

  // In its bar, else left of it, else right of it: where no other bar of the row is, if there is such a side.
  function failingLabel(ops) {
    const x = place(data.begin[data.failing]), width = Math.max(place(failingEnd) - x, 3);
    let text = named(data.labels[data.label[data.failing]]), needed = wideFailing(text);
    if (needed <= width - 8) return { text, begin: x + 5, end: x + 5 + needed, style: "failing-label inside" };
    const left = x - 5 - LEFT, right = WIDTH - RIGHT - (x + width + 5);
    if (needed > Math.max(left, right)) {
      text = cut(text, Math.max(left, right), FONTS.failing);
      needed = wideFailing(text);
    }
    const sides = [[x - 5 - needed, left], [x + width + 5, right]].filter(([, room]) => needed <= room).map(([side]) => side);
    const closes = (op) => place(data.kind[op] === INFO || data.end[op] < 0 ? data.ranks : data.end[op]);
    const touches = (op, side) => op !== data.failing && place(data.begin[op]) < side + needed && closes(op) > side;
    const begin = sides.find((side) => !ops.some((op) => touches(op, side))) ?? sides[0];
    return { text, begin, end: begin + needed, style: "failing-label" };
  }

  function drawCrashed(gone, y) {
    gutter("crashed", y + ROW - 14);
    const box = make(svg, "rect", { class: "op info", x: LEFT, y: y + ROW - BAR - 6, width: INNER, height: BAR });
    const more = gone.length > 30 ? `\nand ${gone.length - 30} before them` : "";
    make(box, "title", {}, gone.slice(-30).map(words).join("\n") + more);
    const last = gone.slice(-12).map((op) => data.labels[data.label[op]]).join(", ");
    fitted(svg, `${gone.length} ops crashed before, and may take effect at any time: ${last}`, LEFT + 6, y + ROW - 13, INNER - 12, "label");
  }

  // Many ops as one path per kind; those that fall on the same units of the picture are drawn as one.
  function drawDense(ops, y) {
    const boxes = ["", "", ""], drawn = [-1, -1, -1];
    for (const op of ops) {
      const kind = data.kind[op], x = Math.max(place(data.begin[op]), drawn[kind]);
      const end = Math.min(Math.max(place(kind === INFO ? data.begin[op] : data.end[op]), x + 1), WIDTH - RIGHT);
      if (end <= drawn[kind] + 0.5) continue;
      boxes[kind] += `M${x.toFixed(1)} ${y + 4}H${end.toFixed(1)}v${BAR - 8}H${x.toFixed(1)}z`;
      drawn[kind] = end;
    }
    boxes.forEach((box, kind) => { if (box) make(svg, "path", { class: `dense ${KINDS[kind]}`, d: box }); });
  }

  function drawBar(op, y, after) {
    const kind = data.kind[op], x = place(data.begin[op]);
    const open = kind === INFO || data.end[op] < 0, width = Math.max(place(open ? data.ranks : data.end[op]) - x, 3);
    const style = ["op", KINDS[kind]];
    if (witness.has(op)) style.push("witness");
    if (op === data.failing) style.push("failing");
    if (data.begin[op] > failingEnd) style.push("later");
    if (op === pinned) style.push("pinned");
    const group = make(svg, "g", { class: style.join(" "), tabindex: "0", "data-op": String(op), "aria-label": hover(op) });
    if (op === data.failing) group.id = "failing";
    make(group, "title", {}, hover(op));
    make(group, "rect", { x, y, width, height: BAR, rx: 4 });
    const room = kind === 0 && data.begin[op] >= view.low && op !== data.failing ? after - x : Math.min(width, after - x);
    if (op !== data.failing) fitted(group, data.labels[data.label[op]], x + 5, y + 17, room - 8, "label", LETTERS_MIN);
  }

  function drawOrder(found, top) {
    const row = new Map(found.rows.map((process, number) => [process, number]));
    const stops = [];
    path().steps.forEach((op, step) => {
      const point = path().points[step];
      if (point >= view.low && point <= view.high && row.has(data.process[op])) {
        stops.push([place(point), top + row.get(data.process[op]) * ROW + ROW - BAR - 6, step + 1]);
      }
    });
    make(svg, "polyline", { class: "order", points: stops.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") });
    const room = stops.length ? INNER / (view.high - view.low) : 0;
    if (room < 4) return;
    const free = new Map();
    for (const [x, y, step] of stops) {
      const pin = make(svg, "g", { class: "step" }), half = String(step).length * PIN_LETTER / 2;
      make(pin, "circle", { cx: x, cy: y, r: PIN });
      if (x - half < (free.get(y) ?? 0)) continue;
      make(pin, "text", { x, y: y + 3.3, "text-anchor": "middle" }, String(step));
      free.set(y, x + half);
    }
  }

  function drawAxis(y) {
    make(svg, "line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y });
    for (let part = 0; part < 8; part++) {
      const rank = Math.round(view.low + (part + 0.5) / 8 * (view.high - view.low));
      if (rank < 0 || rank >= data.ranks) continue;
      make(svg, "line", { class: "axis", x1: place(rank), x2: place(rank), y1: y, y2: y + 4 });
      const words = data.time_us ? `${(data.time_us[rank] / 1e6).toFixed(4)} s` : `op ${data.index[rank]}`;
      make(svg, "text", { x: place(rank), y: y + 16, "text-anchor": "middle" }, words);
    }
  }

  function drawOverview(y) {
    const whole = (rank) => place(rank, -1, Math.max(data.ranks, 1));
    gutter(`${total.toLocaleString("en")} ops`, y + 16);
    make(svg, "rect", { class: "ground", id: "overview", x: LEFT, y, width: INNER, height: OVERVIEW - 2 });
    for (const [kind, begin, end] of data.faults) {
      make(svg, "rect", { class: `${faultStyle(kind)} faint`, x: whole(begin), y: y + 3, width: Math.max(whole(end) - whole(begin), 1), height: OVERVIEW - 8 });
    }
    make(svg, "line", { class: "wall", x1: whole(failingEnd), x2: whole(failingEnd), y1: y, y2: y + OVERVIEW - 2 });
    make(svg, "rect", { class: "lens", id: "lens", x: whole(view.low), y, width: Math.max(whole(view.high) - whole(view.low), 3), height: OVERVIEW - 2, rx: 2 });
  }

  // --- in words -------------------------------------------------------------------------------------------------

  function words(op) {
    const begin = data.begin[op], end = data.end[op], node = data.nodes[data.node[op]];
    const span = `op ${data.index[begin]}${end < 0 ? "" : `-${data.index[end]}`}`;
    const at = (rank) => `${(data.time_us[rank] / 1e6).toFixed(4)} s`;
    const times = data.time_us ? `, ${at(begin)} to ${end < 0 ? "never completed" : at(end)}` : "";
    const fate = ["", ", failed: it did not happen", ", outcome unknown: it may have happened at any time since, or never"][data.kind[op]];
    return `${data.labels[data.label[op]]} (${span}, process ${data.process[op]}${node ? ` on ${node}` : ""}${times}${fate})`;
  }

  function hover(op) {
    const said = words(op);
    if (op === data.failing) return `${said}\nNo order lets it take effect.`;
    if (!path()) return said;
    const step = path().steps.indexOf(op);
    if (step >= 0) return `${said}\nStep ${step + 1} of the order that is drawn; the state after it is ${path().states[step]}`;
    return path().already.includes(op) ? `${said}\nHad taken effect before the order that is drawn begins` : said;
  }

  // --- moving about ---------------------------------------------------------------------------------------------

  function show(low, high) {
    const most = data.ranks + 1, span = Math.min(Math.max(high - low, LEAST), most);
    const from = Math.min(Math.max(low, -1), most - 1 - span);
    view = { low: from, high: from + span };
    if (!wanted) {
      wanted = true;
      requestAnimationFrame(() => { wanted = false; draw(); });
    }
  }

  function zoom(factor, at = (view.low + view.high) / 2) {
    show(at - (at - view.low) * factor, at + (view.high - at) * factor);
  }

  const pan = (part) => show(view.low + (view.high - view.low) * part, view.high + (view.high - view.low) * part);
  const actions = {
    failing: () => { show(home.low, home.high); requestAnimationFrame(reveal); }, all: () => show(-1, data.ranks),
    in: () => zoom(0.6), out: () => zoom(1 / 0.6), left: () => pan(-0.4), right: () => pan(0.4),
  };
  // Zooming by hand keeps the failing op where it is as long as it is in view.
  for (const name of ["in", "out"]) {
    const factor = name === "in" ? 0.6 : 1 / 0.6;
    actions[name] = () => zoom(factor, failingEnd > view.low && failingEnd < view.high ? failingEnd : undefined);
  }
  const keys = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", Home: "failing" };

  function unitAt(event) {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) / box.width * WIDTH;
  }
  const rankAt = (unit) => view.low + (unit - LEFT) / INNER * (view.high - view.low);

  function tell(target) {
    const group = target.closest("[data-op]");
    if (group) told.textContent = hover(+group.dataset.op);
    return group;
  }

  document.getElementById("controls").addEventListener("click", (event) => {
    const name = event.target.dataset.do;
    if (name) actions[name]();
  });
  document.getElementById("stage").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });
  svg.addEventListener("focusin", (event) => tell(event.target));
  svg.addEventListener("pointerover", (event) => { if (pinned < 0) tell(event.target); });
  svg.addEventListener("wheel", (event) => {
    if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), rankAt(unitAt(event)));
    else if (event.deltaX) pan(event.deltaX / 1000);
    else return;
    event.preventDefault();
  }, { passive: false });

  let dragged = null;
  svg.addEventListener("pointerdown", (event) => {
    const strip = event.target.id === "overview" || event.target.id === "lens";
    dragged = { unit: unitAt(event), low: view.low, high: view.high, strip, moved: false };
    if (strip) centre(event);
  });
  window.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    if (dragged.strip) return centre(event);
    const by = (dragged.unit - unitAt(event)) / INNER * (dragged.high - dragged.low);
    dragged.moved ||= Math.abs(dragged.unit - unitAt(event)) > 4;
    if (dragged.moved) show(dragged.low + by, dragged.high + by);
  });
  window.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved && !dragged.strip && event.target.closest) {
      const group = tell(event.target);
      pinned = group && +group.dataset.op !== pinned ? +group.dataset.op : -1;
      draw();
    }
    dragged = null;
  });
  function centre(event) {
    const half = (view.high - view.low) / 2, at = -1 + (unitAt(event) - LEFT) / INNER * (data.ranks + 1);
    show(at - half, at + half);
  }

  for (const button of document.querySelectorAll("[data-path]")) {
    button.hidden = data.paths.length < 2;
    button.addEventListener("click", () => {
      chosen = +button.dataset.path;
      show(home.low, home.high);
      document.getElementById("stage").scrollIntoView({ block: "center" });
    });
  }
  // "#op-123" leads to the op with that index in the history, "#all" to all of them.
  function follow() {
    if (location.hash === "#all") return actions.all();
    const index = +(/^#op-(\d+)$/.exec(location.hash) || [])[1];
    const op = data.begin.findIndex((begin, op) => data.index[begin] === index || data.index[data.end[op]] === index);
    if (op < 0) return;
    pinned = op;
    told.textContent = hover(op);
    show(data.begin[op] - 24, data.begin[op] + 32);
  }
  window.addEventListener("hashchange", follow);
  follow();

  // In a narrow window the picture is wider than what it scrolls in.
  function reveal() {
    const stage = document.getElementById("stage").getBoundingClientRect();
    const bar = (document.getElementById("failing") || svg).getBoundingClientRect();
    document.getElementById("stage").scrollLeft += (bar.left + bar.right - stage.left - stage.right) / 2;
  }
  if (!location.hash) reveal();

  document.getElementById("controls").hidden = false;
  svg.dataset.ready = "true";
})();
