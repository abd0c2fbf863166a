
// A chart's drawings are complete as they stand. Zooming changes their viewBox and
// the words beside them; pointing shows the numbers of one window.
const charts = () => document.querySelectorAll(".chart:not(.live)").forEach(chart);
charts();
document.addEventListener("replaced", charts);

function chart(figure) {
  figure.classList.add("live");
  const data = JSON.parse(figure.querySelector("script").textContent);
  const count = data.days.length;
  const over = figure.querySelector(".over"), dates = figure.querySelector(".dates");
  const hidden = new Set();
  const panels = [
    panel(".readers", data.tops[0], ["total", "human", "ai", "both"], 1, ""),
    panel(".share", data.tops[1], ["share"], 10, "%"),
  ];
  const flat = figure.querySelectorAll(".strip svg, .jobs svg");
  const line = add(over, "line"), range = add(over, "range"), tip = add(over, "tip");
  tip.setAttribute("role", "status");
  let from = 0, to = count, cursor = -1, start = -1;

  function panel(name, top, series, scale, unit) {
    const frame = figure.querySelector(name);
    const dots = series.map(s => ({ series: s, element: add(frame, "dot " + s) }));
    return { svg: frame.querySelector("svg"), scale: frame.nextElementSibling, top, series, per: scale, unit, dots, now: top };
  }

  function draw() {
    for (const p of panels) {
      let largest = 0;
      for (const s of p.series.filter(s => !hidden.has(s)))
        for (const v of data[s].slice(from, to)) largest = Math.max(largest, v);
      p.now = Math.min(p.top, ceiling(largest / p.per) * p.per);
      const share = p.now / p.top;
      p.svg.setAttribute("viewBox", box(data.height * (1 - share), data.height * share));
      const marks = p.scale.children;
      marks[0].textContent = short(p.now / p.per) + p.unit;
      marks[1].textContent = short(p.now / p.per / 2) + p.unit;
    }
    for (const svg of flat) svg.setAttribute("viewBox", box(0, data.height));
    const n = to - from, step = Math.ceil(n / data.most), named = Math.floor(n / step);
    const first = from + Math.floor((n - 1 - (named - 1) * step) / 2);
    dates.replaceChildren(...Array.from({ length: named }, (_, k) => {
      const tick = document.createElementNS("http://www.w3.org/2000/svg", "text"), i = first + k * step;
      tick.textContent = data.ticks[i];
      tick.setAttribute("x", place(i));
      tick.setAttribute("y", 12);
      return tick;
    }));
    for (const b of figure.querySelectorAll("[data-zoom]")) {
      const k = Number(b.dataset.zoom);
      b.setAttribute("aria-pressed", to === count && from === (k ? count - k : 0));
    }
    point(-1);
  }

  function box(y, height) { return [from * data.column, y, (to - from) * data.column, height].join(" "); }

  function zoom(a, b) {
    const least = Math.min(count, 3);
    from = Math.max(0, Math.min(a, count - least));
    to = Math.min(count, Math.max(b, from + least));
    draw();
  }

  // point shows window i, or nothing.
  function point(i) {
    cursor = i;
    const shown = i >= from && i < to;
    figure.classList.toggle("pointed", shown);
    for (const p of panels)
      for (const d of p.dots) {
        const v = shown && !hidden.has(d.series) ? data[d.series][i] : null;
        d.element.hidden = v === null;
        if (v === null) continue;
        d.element.style.left = place(i);
        d.element.style.top = 100 * (1 - v / p.now) + "%";
      }
    if (!shown) return;
    line.style.left = place(i);
    tip.replaceChildren(...words(i));
    const right = (i - from) > (to - from) / 2;
    tip.style.left = right ? "auto" : `calc(${place(i)} + 12px)`;
    tip.style.right = right ? `calc(100% - ${place(i)} + 12px)` : "auto";
  }

  function place(i) { return 100 * (i - from + .5) / (to - from) + "%"; }

  function words(i) {
    const text = (tag, s, name) => Object.assign(document.createElement(tag), { textContent: s, className: name || "" });
    const out = [text("b", data.days[i])];
    for (const [s, name] of [["total", "Total"], ["human", "Human"], ["ai", "AI"], ["both", "Person and AI"]])
      if (data[s][i] !== null) out.push(text("span", name, s === "human" || s === "ai" ? s : ""), text("span", data[s][i].toLocaleString("en")));
    if (data.share[i] !== null) out.push(text("span", "AI share", "ai"), text("span", (data.share[i] / 10).toFixed(1) + "%"));
    out.push(text("em", data.states[i]));
    for (const job of data.jobs[i] || []) out.push(text("small", job));
    return out;
  }

  function at(event) {
    const r = over.getBoundingClientRect();
    return Math.max(from, Math.min(to - 1, from + Math.floor((event.clientX - r.left) / r.width * (to - from))));
  }

  over.addEventListener("pointermove", event => {
    const i = at(event);
    point(i);
    range.hidden = start < 0 || start === i;
    if (range.hidden) return;
    const a = Math.min(start, i), b = Math.max(start, i);
    range.style.left = 100 * (a - from) / (to - from) + "%";
    range.style.width = 100 * (b + 1 - a) / (to - from) + "%";
  });
  over.addEventListener("pointerdown", event => {
    if (event.pointerType === "mouse" && event.button === 0) {
      start = at(event);
      over.setPointerCapture(event.pointerId);
    }
    point(at(event));
  });
  over.addEventListener("pointerup", event => {
    const a = start, b = at(event);
    start = -1;
    range.hidden = true;
    if (a >= 0 && a !== b) zoom(Math.min(a, b), Math.max(a, b) + 1);
  });
  over.addEventListener("pointercancel", () => { start = -1; range.hidden = true; });
  over.addEventListener("pointerleave", () => { if (start < 0) point(-1); });
  over.addEventListener("blur", () => point(-1));
  over.addEventListener("dblclick", () => zoom(0, count));
  over.addEventListener("keydown", event => {
    const here = cursor < 0 ? to - 1 : cursor, half = Math.max(1, Math.round((to - from) / 4));
    switch (event.key) {
      case "ArrowLeft": point(Math.max(from, cursor < 0 ? here : here - 1)); break;
      case "ArrowRight": point(Math.min(to - 1, here + 1)); break;
      case "+": zoom(here - half, here + half + 1); point(Math.min(here, to - 1)); break;
      case "-": zoom(from - half, to + half); point(here); break;
      case "Escape": zoom(0, count); break;
      default: return;
    }
    event.preventDefault();
  });

  figure.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.zoom) {
      zoom(Number(button.dataset.zoom) ? count - Number(button.dataset.zoom) : 0, count);
      return;
    }
    toggle(button.dataset.series);
  });

  function toggle(series) {
    if (!hidden.delete(series)) hidden.add(series);
    show(series);
    draw();
  }

  function show(series) {
    const off = hidden.has(series);
    figure.querySelector(`button[data-series=${series}]`).setAttribute("aria-pressed", !off);
    for (const path of figure.querySelectorAll(`path[data-series=${series}]`)) path.classList.toggle("off", off);
  }

  hidden.add("both");
  show("both");
  draw();
}

function add(parent, name) {
  const element = document.createElement("div");
  element.className = name;
  element.hidden = name !== "line" && name !== "tip";
  return parent.appendChild(element);
}

// ceiling is a round number not below n whose half is round too.
function ceiling(n) {
  const size = 10 ** Math.floor(Math.log10(Math.max(n, 2)));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8].map(s => Math.round(s * size * 10) / 10).find(v => v >= n && v % 2 === 0) || 10 * size;
}

function short(n) {
  for (const [size, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (n >= size) return Math.round(n / size * 100) / 100 + name;
  return String(n);
}
