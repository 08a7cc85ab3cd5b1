// The page's own script. Everything shown is made of the JSON below, by textContent: a name is never markup.
"use strict";
(() => {
const errors = [];
const root = document.documentElement;
const tell = () => { root.dataset.errors = errors.length; root.dataset.error = errors.join(" | ").slice(0, 500); };
addEventListener("error", event => { errors.push(String(event.message)); tell(); });
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");
const COLOURS = ["#2563c9", "#d9480f", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#4d7c0f", "#4338ca", "#a16207"];
const DARK = ["#7fb0ff", "#ff9b66", "#5fd38a", "#c99bff", "#f0b45a", "#5cc8dc", "#f58ab8", "#a6cf5a", "#a3a0ff", "#dcc050"];
let printing = false;
const dark = () => !printing && matchMedia("(prefers-color-scheme: dark)").matches;
const colour = index => (dark() ? DARK : COLOURS)[index % COLOURS.length];
const css = name => getComputedStyle(root).getPropertyValue(name).trim();
const el = (tag, props = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};
const three = value => { const size = Math.abs(value); return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0); };
const time = ns => {
  const size = Math.abs(ns);
  if (size < 999.5) return `${Math.round(ns)} ns`;
  if (size < 999500) return `${three(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${three(ns / 1e6)} ms`;
  return `${three(ns / 1e9)} s`;
};
const thousands = value => Math.abs(value) < 10000 ? String(value) : value.toLocaleString("en");
const shown = (value, kind) => {
  if (value === null || value === undefined) return "–";
  if (kind === "text") return value;
  if (kind === "measure") return value[2];
  if (kind === "ns") return time(value);
  if (kind === "instant") return `${(value / 1e9).toFixed(6)} s`;
  if (kind === "share") return `${(value * 100).toFixed(2)} %`;
  if (kind === "id") return String(value);
  if (kind === "change") return value === 0 ? "0 %" : `${value > 0 ? "+" : "−"}${Math.abs(value * 100).toFixed(1)} %`;
  if (kind === "number") return Number.isInteger(value) ? thousands(value) : three(value);
  return thousands(value);
};
const ids = new Set();
const nav = document.querySelector("nav ul");
const section = (title, sub, entry = title) => {
  let id = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "part";
  while (ids.has(id)) id += "-more";
  ids.add(id);
  const node = el("section", { id }, el("h2", { text: title }));
  if (sub) node.append(el("p", { class: "sub", text: sub }));
  if (entry) nav.append(el("li", {}, el("a", { href: `#${id}`, text: entry })));
  main.append(node);
  return node;
};
const tip = el("div", { class: "tip", role: "status" });
document.body.append(tip);
const hint = (event, text) => {
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
};
// Functions that draw again when the size or the colours change.
const drawings = [];
let marking = 0;
const draw = () => { drawings.forEach(drawing => drawing()); clearTimeout(marking); marking = setTimeout(mark, 100); };
const canvas = (height, label, extra = "") => el("canvas", { class: `draw ${extra}`, "data-height": height, role: "img", "aria-label": label });
// The width of drawings for paper. The style sheet fits them to the page, whose width the script does not know.
const PAPER = 720;
const prepare = node => {
  const ratio = Math.max(devicePixelRatio || 1, printing ? 2 : 1), width = printing ? PAPER : node.clientWidth || 1000, height = Number(node.dataset.height);
  node.style.height = printing ? "auto" : `${height}px`;
  node.width = Math.round(width * ratio);
  node.height = Math.round(height * ratio);
  const pen = node.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  return [pen, width, height];
};
const mix = (from, to, part) => {
  const parse = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, at) => Math.round(value + (b[at] - value) * part)).join(",")})`;
};
const stepOf = span => {
  const raw = span / 8, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(by => power * by >= raw);
};
// Room for the longest `CPU 123`.
const LEFT = 45 + 7 * Math.max(1, ...data.runs.filter(run => run.overview).map(run => String(run.overview.cpus.length - 1).length));
const axis = (pen, width, height, from, to) => {
  pen.fillStyle = css("--soft"); pen.strokeStyle = css("--line"); pen.lineWidth = 1; pen.textAlign = "center";
  const step = stepOf(to - from), left = LEFT;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = left + (at - from) / (to - from) * (width - left);
    pen.beginPath(); pen.moveTo(x, height - 18); pen.lineTo(x, height - 14); pen.stroke();
    const text = step >= 1e9 ? `${(at / 1e9).toFixed(0)} s` : step >= 1e6 ? (at >= 1e9 ? `${(at / 1e9).toFixed(3)} s` : `${at / 1e6} ms`) : `${(at / 1e6).toFixed(3)} ms`;
    if (x > left + 8 && x < width - 24) pen.fillText(text, x, height - 7);
  }
};

// Tables that can be sorted. Long tables show their rows in pieces.
const PIECE = 20;
// Sorts measures by unit. Units are in the order in which the table has them.
const orderOf = (column, values) => {
  if (column.kind === "text") return (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });
  if (column.kind !== "measure") return (a, b) => a - b;
  const units = [...new Set(values.filter(value => value !== null).map(value => value[1]))];
  return (a, b, down) => units.indexOf(a[1]) === units.indexOf(b[1]) ? a[0] - b[0] : (down ? -1 : 1) * (units.indexOf(a[1]) - units.indexOf(b[1]));
};
const tableOf = table => {
  const body = el("tbody"), head = el("tr"), upper = el("tr"), cells = [];
  const grouped = table.columns.some(column => column.group);
  const isFirst = at => table.columns[at].group && table.columns[at].group !== table.columns[at - 1]?.group;
  const classOf = at => [table.columns[at].kind === "text" && "text", isFirst(at) && "first"].filter(Boolean).join(" ");
  let rows = table.rows.slice(), many = PIECE, sorted = null, down = false;
  const more = el("button", { class: "more", type: "button", onclick: () => { many = rows.length; fill(); } });
  const fill = () => {
    const count = printing ? Math.min(rows.length, Math.max(many, 40)) : many;
    body.replaceChildren(...rows.slice(0, count).map(row => el("tr", {}, ...row.map((value, at) => {
      const kind = table.columns[at].kind;
      return el("td", { class: classOf(at), text: shown(value, kind) });
    }))));
    more.hidden = rows.length <= many;
    more.textContent = `Show all ${thousands(rows.length)} rows`;
  };
  table.columns.forEach((column, at) => {
    const cell = el("th", { class: classOf(at), scope: "col" });
    const label = column.group ? `${column.group}: ${column.head}` : null;
    cell.append(el("button", { type: "button", text: column.head, "aria-label": label, onclick: () => {
      down = sorted === at ? !down : column.kind !== "text";
      sorted = at;
      const order = orderOf(column, table.rows.map(row => row[at]));
      rows = table.rows.slice().sort((a, b) => {
        const [x, y] = [a[at], b[at]];
        if (x === null || y === null) return (x === null) - (y === null);
        return (down ? -1 : 1) * order(x, y, down);
      });
      cells.forEach(other => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    } }));
    cells.push(cell);
    if (!grouped || column.group) head.append(cell);
    else { cell.rowSpan = 2; upper.append(cell); }
    if (column.group && !isFirst(at)) upper.lastElementChild.colSpan++;
    else if (column.group) upper.append(el("th", { class: "group first", scope: "colgroup", text: column.group }));
  });
  fill();
  const rowsOfHead = grouped ? [upper, head] : [head];
  const box = el("div", { class: "scroll" }, el("table", { class: table.columns.length > 14 ? "wide widest" : table.columns.length > 9 ? "wide" : "" }, el("thead", {}, ...rowsOfHead), body));
  const beyond = el("p", { class: "note beyond", text: "More columns are to the right: scroll, or press → in the table." });
  // A table that is wider than the page scrolls by keyboard, and a line says so.
  const fit = () => {
    const over = !printing && box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("over", over);
    beyond.hidden = !over;
    if (over) { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", table.title); }
    else for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
  };
  drawings.push(() => { fill(); fit(); });
  return [box, beyond, more];
};

// Bars of one heading have one scale and one left edge, so that runs can be compared.
const barsOf = all => {
  const box = el("div", { class: "bars" });
  const most = Math.max(1e-9, ...all.flatMap(bars => bars.rows.flatMap(row => [row.share, row.mark ?? 0])));
  for (const { label, row } of all.flatMap(bars => bars.rows.map((row, at) => ({ label: at === 0 ? bars.label : "", row })))) {
    if (label) box.append(el("h3", { text: label }));
    const bar = el("div", { class: "bar" });
    const part = el("b"); part.style.width = `${row.share / most * 100}%`; bar.append(part);
    if (row.mark !== null && row.mark !== undefined) { const mark = el("u"); mark.style.left = `${row.mark / most * 100}%`; bar.append(mark); }
    box.append(el("span", { class: "name", text: row.name }), bar, el("span", { class: "value", text: row.text }));
  }
  return box;
};

for (let from = 0, to = 0; from < data.bars.length; from = to) {
  const { title, sub, entry } = data.bars[from];
  while (to < data.bars.length && data.bars[to].title === title) to++;
  section(title, sub, entry).append(barsOf(data.bars.slice(from, to)));
}

// Wakeup latency: a line for each run, of one name.
const runs = data.runs.filter(run => run.overview);
const names = [...new Set(runs.flatMap(run => run.overview.delays.map(one => one.name)))];
if (names.length) {
  const part = section("Wakeup latency", "The part of a class's wakeups after which the task ran within a time. A line further left is better.");
  const choice = el("select", { "aria-label": "Tasks", onchange: () => redraw() }, ...names.map(name => el("option", { value: name, text: name })));
  const place = el("div");
  part.append(el("div", { class: "tools" }, el("label", {}, document.createTextNode("Tasks: "), choice)), place);
  let chart = null;
  const redraw = () => {
    const lines = runs.map((run, at) => [run.label, run.overview.delays.find(one => one.name === choice.value), at]).filter(line => line[1]);
    // Each line has its own times; on the common axis a value is that of the last point before.
    const times = [...new Set(lines.flatMap(line => line[1].points.map(point => Math.max(point[0], 100))))].sort((a, b) => a - b);
    // A line begins at the least value, at 0 %.
    const xs = times.length ? [times[0] * (1 - 1e-6), ...times] : times;
    const ys = lines.map(line => {
      const points = line[1].points; let at = -1;
      return xs.map(x => { while (at + 1 < points.length && Math.max(points[at + 1][0], 100) <= x) at++; return at < 0 ? 0 : points[at][1] * 100; });
    });
    place.dataset.begin = ys.map(values => values[0]).join();
    if (chart) chart.destroy();
    const ink = css("--soft"), line = css("--line");
    chart = new uPlot({
      width: printing ? PAPER : Math.max(place.clientWidth, 300), height: 300,
      scales: { x: { time: false, distr: 3 }, y: { range: [0, 100] } },
      axes: [
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, values: (_, all) => all.map(value => value === null ? "" : time(value)), space: 70 },
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, values: (_, all) => all.map(value => `${value} %`), size: 56 },
      ],
      series: [{ label: "within", value: (_, value) => value === null ? "–" : time(value) },
        ...lines.map(([label, one, at]) => ({ label: `${label} (${thousands(one.count)} wakeups)`, stroke: colour(at), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, value: (_, value) => value === null ? "–" : `${value.toFixed(2)} %` }))],
      cursor: { drag: { x: true, y: false } },
    }, [xs, ...ys], place);
  };
  drawings.push(redraw);
}

// CPU utilisation: a row for each CPU, a column for each bin.
if (runs.length) {
  const part = section("CPU utilisation", "A row is a CPU. A stronger colour means that tasks ran there for more of the time. Hatched parts are unknown: the trace does not show whether a task ran.");
  for (const run of runs) {
    const { cpus, bin_ns: bin, elapsed_ns: elapsed } = run.overview;
    const rowHeight = Math.max(6, Math.min(24, 420 / Math.max(1, cpus.length)));
    const node = canvas(rowHeight * cpus.length + 22, `Utilisation of ${cpus.length} CPUs over time, ${run.label}`, "heat");
    if (runs.length > 1) part.append(el("h3", { text: run.label }));
    part.append(node);
    const cell = (x, y, width) => {
      const cpu = Math.floor(y / rowHeight), at = Math.floor((x - LEFT) / (width - LEFT) * elapsed / bin);
      return cpus[cpu] && x >= LEFT && at >= 0 ? [cpu, at] : null;
    };
    drawings.push(() => {
      const [pen, width, height] = prepare(node);
      const [low, high, unknown] = [css("--heat0"), css("--heat1"), css("--mixed")];
      cpus.forEach((cpu, row) => {
        pen.fillStyle = css("--soft"); pen.textAlign = "right";
        if (rowHeight >= 11 || row % Math.ceil(12 / rowHeight) === 0) pen.fillText(`CPU ${row}`, LEFT - 8, Math.max(6, row * rowHeight + rowHeight / 2));
        cpu.busy.forEach((busy, at) => {
          const x = LEFT + at * bin / elapsed * (width - LEFT), to = Math.min(width, LEFT + (at + 1) * bin / elapsed * (width - LEFT));
          pen.fillStyle = busy === null ? unknown : mix(low, high, busy / 1000);
          pen.fillRect(x, row * rowHeight, to - x + .4, rowHeight - (rowHeight > 8 ? 1.5 : .5));
          if (busy === null) { pen.strokeStyle = css("--card"); pen.beginPath(); pen.moveTo(x, row * rowHeight); pen.lineTo(to, row * rowHeight + rowHeight - 1); pen.stroke(); }
        });
      });
      axis(pen, width, height, 0, elapsed);
    });
    node.addEventListener("mousemove", event => {
      const box = node.getBoundingClientRect(), found = cell(event.clientX - box.left, event.clientY - box.top, box.width);
      const row = found && cpus[found[0]];
      hint(event, row && found[1] < row.busy.length ? `CPU ${found[0]}, ${time(found[1] * bin)} to ${time(Math.min(elapsed, (found[1] + 1) * bin))}: ` +
        (row.busy[found[1]] === null ? "not known" : `${(row.busy[found[1]] / 10).toFixed(1)} % busy, ${(row.queue[found[1]] / 1000).toFixed(2)} runnable tasks on average, ${row.most[found[1]]} at most`) : "");
    });
    node.addEventListener("mouseleave", event => hint(event, ""));
  }
  const first = runs[0].overview;
  part.append(el("p", { class: "note", text: `A column is ${time(first.bin_ns)}; shares are exact sums over it.` }));
}

// Timeline. All runs share one range of time.
if (runs.some(run => run.overview.timeline.drawn > 0)) {
  const part = section("Timeline", "Drag or press ← → to move. Press + and −, or use Ctrl and the wheel, to zoom. 0 shows all.");
  const end = Math.max(...runs.map(run => run.overview.elapsed_ns));
  const view = { from: 0, to: end };
  const range = el("span", { class: "range", role: "status", "aria-live": "polite" });
  const boards = [];
  const show = () => { boards.forEach(board => board()); range.textContent = `${time(view.from)} to ${time(view.to)}`; };
  const look = (from, to) => {
    const span = Math.min(end, Math.max(1000, to - from));
    view.from = Math.max(0, Math.min(end - span, from)); view.to = view.from + span;
    show();
  };
  const zoom = (by, at = .5) => { const span = view.to - view.from, fixed = view.from + span * at; look(fixed - span * by * at, fixed + span * by * (1 - at)); };
  const move = by => { const span = view.to - view.from; look(view.from + span * by, view.to + span * by); };
  // The tasks with most time have colours of their own, the same in all runs. If pids differ between runs, tasks of one class (of a
  // recording: of one name) have different names. Then colours belong to classes.
  const busiestBy = key => {
    const busiest = new Map();
    runs.forEach(run => run.overview.timeline.cpus.forEach(cpu => cpu.forEach(slice => {
      if (slice[2] >= 0) { const name = run.overview.timeline[key][slice[2]]; busiest.set(name, (busiest.get(name) ?? 0) + slice[1]); }
    })));
    return [...busiest].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, COLOURS.length).map(one => one[0]);
  };
  const byTask = busiestBy("tasks");
  const lacks = (run, other) => {
    const { tasks, classes } = run.overview.timeline, known = new Set(other.overview.timeline.tasks);
    return classes.filter((_, at) => byTask.includes(tasks[at]) && !known.has(tasks[at]));
  };
  const strange = runs.some(run => runs.some(other => { const there = lacks(other, run); return lacks(run, other).some(name => there.includes(name)); }));
  const key = strange ? "classes" : "tasks", top = strange ? busiestBy("classes") : byTask;
  part.dataset.coloursOf = key;
  let sought = "";
  const find = el("input", { type: "search", placeholder: "find a task", "aria-label": "Find a task in the timeline", oninput: event => { sought = event.target.value.toLowerCase(); show(); } });
  part.append(el("div", { class: "tools" },
    el("button", { type: "button", text: "+", "aria-label": "Zoom in", onclick: () => zoom(.5) }),
    el("button", { type: "button", text: "−", "aria-label": "Zoom out", onclick: () => zoom(2) }),
    el("button", { type: "button", text: "←", "aria-label": "Earlier", onclick: () => move(-.25) }),
    el("button", { type: "button", text: "→", "aria-label": "Later", onclick: () => move(.25) }),
    el("button", { type: "button", text: "All", onclick: () => look(0, end) }), find, range));
  for (const run of runs) {
    const { timeline } = run.overview;
    const rowHeight = Math.max(7, Math.min(22, 480 / Math.max(1, timeline.cpus.length)));
    const node = canvas(rowHeight * timeline.cpus.length + 22, `Timeline of ${timeline.cpus.length} CPUs, ${run.label}. Arrow keys move, plus and minus zoom.`, "timeline");
    node.tabIndex = 0;
    if (runs.length > 1) part.append(el("h3", { text: run.label }));
    part.append(node);
    boards.push(() => {
      const [pen, width, height] = prepare(node);
      const span = view.to - view.from, scale = (width - LEFT) / span, mixed = css("--mixed"), rest = dark() ? "#46566b" : "#b9c6d6";
      timeline.cpus.forEach((cpu, row) => {
        const y = row * rowHeight, tall = rowHeight - (rowHeight > 9 ? 2 : .5);
        pen.fillStyle = css("--soft"); pen.textAlign = "right";
        if (rowHeight >= 11 || row % Math.ceil(12 / rowHeight) === 0) pen.fillText(`CPU ${row}`, LEFT - 8, Math.max(6, y + rowHeight / 2));
        pen.fillStyle = css("--heat0"); pen.fillRect(LEFT, y, width - LEFT, tall);
        let low = 0, high = cpu.length;
        while (low < high) { const mid = (low + high) >> 1; if (cpu[mid][0] + cpu[mid][1] < view.from) low = mid + 1; else high = mid; }
        for (; low < cpu.length && cpu[low][0] <= view.to; low++) {
          const [begin, length, who, , busy] = cpu[low];
          const name = who < 0 ? "" : timeline.tasks[who], at = who < 0 ? -1 : top.indexOf(timeline[key][who]);
          const x = Math.max(LEFT, LEFT + (begin - view.from) * scale), to = Math.min(width, LEFT + (begin + length - view.from) * scale);
          const hit = !sought || name.toLowerCase().includes(sought);
          pen.globalAlpha = hit ? (who < 0 ? .25 + .75 * busy / length : 1) : .12;
          pen.fillStyle = who < 0 ? mixed : at >= 0 ? colour(at) : rest;
          pen.fillRect(x, y, Math.max(.6, to - x), tall);
          pen.globalAlpha = 1;
          if (who >= 0 && hit && to - x > 34 && rowHeight >= 12) {
            pen.fillStyle = at >= 0 ? (dark() ? "#10151c" : "#fff") : css("--ink"); pen.textAlign = "left";
            const fits = name.slice(0, Math.floor((to - x - 6) / 6.2));
            if (fits.length > 2) pen.fillText(fits, x + 4, y + tall / 2 + .5);
          }
        }
      });
      axis(pen, width, height, view.from, view.to);
    });
    const at = event => { const box = node.getBoundingClientRect(); return [Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT)), Math.floor((event.clientY - box.top) / rowHeight)]; };
    let held = null;
    node.addEventListener("pointerdown", event => { held = { x: at(event)[0], ...view }; node.setPointerCapture(event.pointerId); });
    node.addEventListener("pointerup", () => { held = null; });
    node.addEventListener("pointermove", event => {
      const [x, row] = at(event);
      if (held) { const span = held.to - held.from, off = (held.x - x) * span; look(held.from + off, held.to + off); return; }
      const when = view.from + x * (view.to - view.from), slack = (view.to - view.from) / 1500;
      const slice = (timeline.cpus[row] ?? []).find(slice => slice[0] - slack <= when && when <= slice[0] + slice[1] + slack);
      hint(event, slice ? (slice[2] < 0 ? `${thousands(slice[3])} slices of several tasks, ${time(slice[4])} in ${time(slice[1])}` : `${timeline.tasks[slice[2]]}, ${time(slice[1])}`) + `, CPU ${row}, at ${time(slice[0])}` : "");
    });
    node.addEventListener("mouseleave", event => hint(event, ""));
    node.addEventListener("wheel", event => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : .8, at(event)[0]); } }, { passive: false });
    node.addEventListener("keydown", event => {
      const act = { ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), 0: () => look(0, end), Home: () => look(0, view.to - view.from), End: () => look(end - (view.to - view.from), end) }[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
    });
  }
  const legend = el("div", { class: "legend" });
  part.append(legend);
  drawings.push(() => {
    legend.replaceChildren(...top.map((name, at) => { const mark = el("i"); mark.style.background = colour(at); return el("span", {}, mark, document.createTextNode(name)); }));
    show();
  });
  for (const run of runs) {
    const { slices, drawn, grain_ns: grain } = run.overview.timeline;
    const label = runs.length > 1 ? `${run.label}: ` : "";
    part.append(el("p", { class: "note", text: label + (grain > 0
      ? `${thousands(slices)} slices, drawn as ${thousands(drawn)}: neighbouring slices shorter than ${time(grain)} are combined (grey, as dense as they were busy). Longer slices are exact.`
      : `All ${thousands(slices)} slices are drawn, each exactly.`) }));
  }
}

for (const [at, group] of data.tables.entries()) {
  const part = section(group.title, group.sub, at === 0 ? "Tables" : "");
  const several = group.tables.length > 1;
  for (const one of group.tables) {
    if (several || one.label) part.append(el("h3", { text: one.label || one.table.title }));
    part.append(...(one.table.rows.length ? tableOf(one.table) : [el("p", { class: "sub", text: "None." })]));
  }
}

draw();
let wait = 0;
addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(draw, 120); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
// A printed page shows everything that is folded.
let unfolded = [];
addEventListener("beforeprint", () => {
  printing = true; root.classList.add("print"); draw();
  unfolded = [...main.querySelectorAll("details:not([open])")];
  unfolded.forEach(part => { part.open = true; });
});
addEventListener("afterprint", () => {
  printing = false; root.classList.remove("print"); draw();
  unfolded.forEach(part => { part.open = false; });
});
// For tests of the page: how much of each chart is drawn. A redrawn chart may be a new element.
function mark() {
  document.querySelectorAll("canvas:not([data-colours])").forEach(node => {
    const pixels = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
    const seen = new Set();
    for (let at = 3; at < pixels.length; at += 4 * 97) if (pixels[at]) seen.add(pixels[at - 1] << 16 | pixels[at - 2] << 8 | pixels[at - 3]);
    node.dataset.colours = seen.size;
  });
}
setTimeout(() => document.querySelectorAll(".bar").forEach(node => { node.dataset.width = node.clientWidth; node.dataset.left = Math.round(node.getBoundingClientRect().left); }), 100);
tell();
})();
