// Elements, and numbers for people. Text is always text: nothing here is ever parsed as HTML.

export const $ = (id) => document.getElementById(id);

export function el(tag, options = {}, ...children) {
  const { dataset = {}, on = {}, ...rest } = options;
  const made = Object.assign(document.createElement(tag), rest);
  Object.assign(made.dataset, dataset);
  for (const [event, f] of Object.entries(on)) made.addEventListener(event, f);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Fill an element, only if what it shows has changed: focus and selection stay where they are.
export function fill(target, key, make) {
  const text = JSON.stringify(key);
  if (target._shown === text) return;
  target._shown = text;
  target.replaceChildren(...[make()].flat());
}

export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { className: "facts" }, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}

export function table(target, heads, rows) {
  const cell = (tag) => (value, at) => {
    const number = heads[at].startsWith("#");
    return el(tag, { className: number ? "number" : value instanceof Node ? "" : "wide" }, value instanceof Node ? value : String(value ?? "–"));
  };
  const head = el("tr", {}, ...heads.map((name, at) => el("th", { className: name.startsWith("#") ? "number" : "", scope: "col" }, heads[at].replace("#", ""))));
  target.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows.map(({ cells, className = "" }) => el("tr", { className }, ...cells.map(cell("td"))))));
}

export const count = (n) => (n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en"));

export function short(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (n >= 1e4) return `${(n / 1e3).toFixed(1)} k`;
  return n >= 100 || Number.isInteger(n) ? count(n) : n.toFixed(1);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) [n, at] = [n / 1024, at + 1];
  return `${n < 10 && at ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${count(seconds / 86400)} d`;
}

export const moment = (ms) => (ms === null || ms === undefined || ms < 0 ? "–" : new Date(ms).toISOString().replace("T", " ").replace("Z", "").slice(0, 23));
export const shownJson = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
