// The picture of the topology: drawn by the server, coloured and labelled here.
import { $, count, el, facts, fill, short } from "./dom.js";
import { get } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";
let nodes = {};
let notes = {};
let chosen = null;
let last = null;

const svg = (tag, attributes, text = "") => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
};
const find = (kind, name) => [...$("picture").querySelectorAll(`g[data-kind="${kind}"]`)].find((g) => g.dataset.name === name);

export async function loadTopology() {
  const [data, text] = await Promise.all([get("v1/topology"), fetch("v1/topology?format=svg").then((answer) => answer.text())]);
  notes = data.notes;
  nodes = Object.fromEntries(data.subtopologies.flatMap((part) => part.nodes).map((node) => [node.name, node]));
  // without its style: the page has its own, and its policy takes no other
  const picture = new DOMParser().parseFromString(text.replace(/<style>[^]*?<\/style>/, ""), "image/svg+xml").documentElement;
  $("picture").replaceChildren(picture);
  for (const g of picture.querySelectorAll('g[data-kind="node"]')) {
    g.id = `node-${g.dataset.name}`;
    g.setAttribute("tabindex", "0");
    g.setAttribute("role", "button");
    g.setAttribute("aria-label", g.dataset.name);
    g.addEventListener("click", () => choose(g.dataset.name));
    g.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") [event.preventDefault(), choose(g.dataset.name)];
    });
  }
  for (const edge of picture.querySelectorAll("path.edge")) {
    const at = edge.getPointAtLength(edge.getTotalLength() / 2);
    edge.label = svg("text", { class: "rate", x: at.x.toFixed(1), y: (at.y - 5).toFixed(1) });
    edge.after(edge.label);
  }
}

function choose(name) {
  chosen = name;
  for (const g of $("picture").querySelectorAll(".chosen")) g.classList.remove("chosen");
  find("node", name)?.classList.add("chosen");
  if (last) showNode(...last);
}

function perSecond(now, before, read) {
  if (!before || now.now_ms <= before.now_ms) return null;
  const [a, b] = [read(now), read(before)];
  return a === undefined || b === undefined ? null : Math.max(0, (a - b) / ((now.now_ms - before.now_ms) / 1000));
}

const consumed = (topic) => (look) => look.inputs.filter((row) => row.topic === topic).reduce((sum, row) => sum + (row.position || 0), 0);

function edgeRate(now, before, from, to) {
  const [parent, child] = [nodes[from], nodes[to]];
  if (child && !parent) return perSecond(now, before, now.inputs.some((row) => row.topic === from) ? consumed(from) : (look) => look.nodes[to]?.in);
  if (parent && !child) return perSecond(now, before, (look) => look.produced[to]);
  if (child.parents.length === 1) return perSecond(now, before, (look) => look.nodes[to]?.in);
  return perSecond(now, before, (look) => look.nodes[from]?.out);
}

// Shares of the time since the last look; of all time, while nothing happens.
function shares(now, before) {
  const names = Object.keys(nodes);
  const spent = (name) => (now.nodes[name]?.seconds || 0) - (before?.nodes[name]?.seconds || 0);
  let seconds = Object.fromEntries(names.map((name) => [name, Math.max(0, spent(name))]));
  if (Object.values(seconds).reduce((a, b) => a + b, 0) < 0.001) seconds = Object.fromEntries(names.map((name) => [name, now.nodes[name]?.seconds || 0]));
  const total = Object.values(seconds).reduce((a, b) => a + b, 0);
  return total ? Object.fromEntries(names.map((name) => [name, seconds[name] / total])) : {};
}

export function showTopology(now, before) {
  const share = shares(now, before);
  for (const edge of $("picture").querySelectorAll("path.edge")) {
    const rate = edgeRate(now, before, edge.dataset.from, edge.dataset.to);
    if (edge.label) edge.label.textContent = rate === null ? "" : `${short(rate)}/s`;
  }
  for (const name of Object.keys(nodes)) {
    const g = find("node", name);
    if (!g) continue;
    g.style.setProperty("--heat", (share[name] || 0).toFixed(3));
    const dropped = Object.values(now.nodes[name]?.dropped || {}).reduce((a, b) => a + b, 0);
    if (dropped) badge(g, dropped);
  }
  last = [now, before, share];
  showNode(...last);
}

function badge(g, dropped) {
  let mark = g.querySelector(".badge");
  if (!mark) {
    const box = g.querySelector("rect").getBBox();
    mark = svg("g", { class: "badge" });
    mark.append(svg("rect", { y: box.y - 11, height: 15, rx: 7.5 }), svg("text", { y: box.y }), svg("title", {}, "records dropped here"));
    mark.right = box.x + box.width - 3;
    g.append(mark);
  }
  const [box, text] = mark.children;
  text.textContent = short(dropped);
  const width = text.textContent.length * 6.2 + 10;
  box.setAttribute("width", width);
  box.setAttribute("x", mark.right - width);
  text.setAttribute("x", mark.right - width / 2);
}

function showNode(now, before, share) {
  const node = nodes[chosen];
  if (!node) return;
  const seen = now.nodes[chosen] || {};
  const dropped = Object.entries(seen.dropped || {}).map(([reason, n]) => `${count(n)} ${reason}`).join(", ");
  const rows = [
    ["kind", node.operator || node.kind], ["function", node.functions.join(", ")], ["topics", (node.topics || []).join(", ")],
    ["records in", seen.in === undefined ? null : count(seen.in)], ["records out", seen.out === undefined ? null : count(seen.out)],
    ["time", seen.seconds === undefined ? null : `${seen.seconds.toFixed(2)} s, ${Math.round((share[chosen] || 0) * 100)} % now`],
    ["dropped", dropped || "none"], ["stores", (node.stores || []).join(", ")], ["way", notes[chosen] || "by batch"],
  ];
  fill($("node"), [chosen, rows], () => [el("h3", {}, chosen), facts(rows)]);
}
