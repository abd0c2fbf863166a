"use strict";
document.documentElement.classList.add("js");

// The page can be read as it stands. What the reader chooses is kept in the history of the
// tab: it survives a refresh, and going to another page and back.
const chosen = Object.assign({ order: {}, filter: {}, open: {}, tab: {}, paused: false }, history.state);
const choose = () => history.replaceState(chosen, "");

// apply puts the choices into a page as the server sends it: this one, or a newer one.
function apply(page) {
  for (const head of page.querySelectorAll(".pages thead th + th:not(.text)")) {
    const button = Object.assign(page.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
  }
  for (const [id, [column, direction]] of Object.entries(chosen.order)) {
    const list = page.getElementById(id);
    if (list) order(list, column, direction);
  }
  for (const input of page.querySelectorAll(".filter input")) filter(input);
  for (const [id, open] of Object.entries(chosen.open)) {
    const part = page.getElementById(id);
    if (part) part.open = open;
  }
}

// order sorts a list of pages by a column; pages with equal numbers stay as they were.
function order(list, column, direction) {
  const heads = Array.from(list.querySelectorAll("thead th"));
  const at = heads.findIndex(h => h.textContent === column);
  if (at < 0) return;
  for (const h of heads) h.removeAttribute("aria-sort");
  heads[at].setAttribute("aria-sort", direction);
  const number = row => { // of a day, 20261109; words may follow
    const cell = row.cells[at], n = parseFloat(cell?.dataset.value ?? cell?.textContent.replace(/[,-]/g, ""));
    return Number.isNaN(n) ? -Infinity : n;
  };
  const body = list.querySelector("tbody"), sign = direction === "ascending" ? 1 : -1;
  body.append(...Array.from(body.rows).sort((a, b) => sign * (number(a) - number(b))));
}

// filter shows the rows whose path has the text, in all lists beside the box.
function filter(input) {
  const text = chosen.filter[input.id] || "", listing = input.closest(".listing"), found = new Set();
  for (const row of listing.querySelectorAll(".pages tbody tr")) {
    const path = row.querySelector("bdi")?.title ?? "";
    row.hidden = !path.toLowerCase().includes(text.toLowerCase());
    if (!row.hidden) found.add(path);
  }
  for (const list of listing.querySelectorAll(".pages")) list.classList.toggle("filtered", text !== "");
  const status = input.closest(".filter").querySelector("[role=status]");
  status.textContent = text && (found.size === 1 ? "1 page" : `${found.size} pages`) + " of these lists. ";
  if (!text || !input.dataset.project) return;
  const any = input.ownerDocument.createElement("a");
  any.href = "page?" + new URLSearchParams({ project: input.dataset.project, path: text });
  any.textContent = "Open the page " + text;
  status.append(any);
}

document.addEventListener("click", event => {
  const head = event.target.closest(".pages thead button")?.parentElement;
  if (!head) return;
  const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
  const list = head.closest(".pages");
  chosen.order[list.id] = [head.textContent, direction];
  order(list, head.textContent, direction);
  choose();
});

document.addEventListener("input", event => {
  if (!event.target.matches(".filter input")) return;
  chosen.filter[event.target.id] = event.target.value;
  filter(event.target);
  choose();
});

document.addEventListener("change", event => {
  if (!event.target.matches(".tabs > input")) return;
  chosen.tab[event.target.name] = event.target.id;
  choose();
});

// The event does not bubble.
document.addEventListener("toggle", event => {
  if (!event.target.id) return;
  chosen.open[event.target.id] = event.target.open;
  choose();
}, true);

// A link within the page begins a new entry of the history.
addEventListener("hashchange", choose);

// Parts that a script changes are replaced whole, when the server sends them otherwise.
const sent = new WeakMap();
for (const part of document.querySelectorAll("[data-whole]")) sent.set(part, part.outerHTML);
for (const id of Object.values(chosen.tab)) Object.assign(document.getElementById(id) ?? {}, { checked: true });
for (const [id, value] of Object.entries(chosen.filter)) Object.assign(document.getElementById(id) ?? {}, { value });
apply(document);

// refresh asks the server for the page anew and changes what is different, so that focus,
// place and choices stay.
let timer;
function wait() {
  clearTimeout(timer);
  const bar = document.querySelector(".refresh");
  if (!bar) return;
  const pause = bar.querySelector("[data-refresh=pause]");
  pause.setAttribute("aria-pressed", chosen.paused);
  if (!chosen.paused) timer = setTimeout(() => document.hidden ? wait() : refresh(), bar.dataset.every * 1000);
}

async function refresh(asked) {
  clearTimeout(timer);
  const say = text => document.querySelector(".refresh [role=status]").textContent = text;
  const clock = () => new Date().toISOString().slice(11, 16) + " UTC";
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(30000) });
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Another version of docgauge has another style or script. Extensions of the browser may have added some.
    const texts = (of, name) => Array.from(of.querySelectorAll(name), e => e.textContent);
    for (const name of ["style", "script:not([type])"])
      if (!texts(page, name).every(text => texts(document, name).includes(text))) return location.reload();
    replace(page);
    say(asked ? "Refreshed at " + clock() : "");
  } catch (problem) {
    say(`No answer at ${clock()} (${problem.message}).`);
  }
  wait();
}

function replace(page) {
  apply(page);
  const focus = document.activeElement;
  document.title = page.title;
  change(document.body, page.body);
  if (focus !== document.activeElement && focus?.isConnected) focus.focus({ preventScroll: true });
  document.dispatchEvent(new Event("replaced"));
}

// change makes one node the same as another, and keeps what is the same.
function change(node, as) {
  if (node.isEqualNode(as)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.data = as.data;
    return;
  }
  if (node.matches("[data-whole]")) {
    if (sent.get(node) === as.outerHTML) return;
    sent.set(as, as.outerHTML);
    const controls = e => Array.from(e.querySelectorAll("a, button, input, [tabindex]"));
    const focus = controls(node).indexOf(document.activeElement);
    node.replaceWith(as);
    controls(as)[focus]?.focus({ preventScroll: true });
    return;
  }
  for (const { name } of Array.from(node.attributes)) if (!as.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of as.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  if (node.matches(".refresh")) return;
  const wanted = Array.from(as.childNodes), keys = new Set(wanted.map(key)), known = new Map();
  for (const child of Array.from(node.childNodes)) {
    if (!key(child)) continue;
    if (keys.has(key(child))) known.set(key(child), child);
    else child.remove();
  }
  let at = node.firstChild;
  for (const child of wanted) {
    const same = key(child) ? known.get(key(child)) : at && !key(at) && at.nodeName === child.nodeName ? at : undefined;
    if (!same || same.nodeName !== child.nodeName) {
      node.insertBefore(child, at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else node.insertBefore(same, at);
    change(same, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// key names a node among its siblings: by its id, or a row by the path of its page.
function key(node) {
  return node.id || node.nodeName === "TR" && node.closest(".pages") && node.querySelector("bdi")?.title || "";
}

document.addEventListener("click", event => {
  switch (event.target.closest(".refresh button")?.dataset.refresh) {
    case "now":
      refresh(true);
      break;
    case "pause":
      chosen.paused = !chosen.paused;
      choose();
      wait();
  }
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !chosen.paused && document.querySelector(".refresh")) refresh();
});
wait();
