// The last thousand epochs as bars, stacked by step. A canvas: a thousand bars of eight parts are too many elements.
import { $, count, el, facts, moment, span } from "./dom.js";
import { get } from "./api.js";

const MOST = 1000;
const LEFT = 48;
let epochs = [];
let steps = [];
let chosen = null;
let drawing = false;

const parts = (epoch) => Object.entries(epoch.steps).filter(([step]) => !step.startsWith("lane: "));

export function startTimeline() {
  const canvas = $("timeline");
  const load = () => get("v1/epochs").then((data) => [(epochs = data.epochs.reverse()), draw()]).catch(() => setTimeout(load, 2000));
  load();
  const events = new EventSource("v1/events");
  events.addEventListener("epoch", (event) => add(JSON.parse(event.data)));
  events.addEventListener("state", (event) => JSON.parse(event.data).state === "RUNNING" && !epochs.length && load());
  canvas.addEventListener("pointermove", (event) => choose(at(event.offsetX)));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !epochs.length) return;
    event.preventDefault();
    choose(Math.min(epochs.length - 1, Math.max(0, (chosen === null ? epochs.length : chosen) + move)));
  });
  window.addEventListener("resize", draw);
  window.addEventListener("theme", draw);
}

function add(epoch) {
  if (!epoch.steps || epochs.at(-1)?.epoch >= epoch.epoch) return;
  epochs.push(epoch);
  if (epochs.length > MOST) [epochs.shift(), chosen !== null && (chosen -= 1)];
  draw();
}

function shape() {
  const width = $("timeline").clientWidth - LEFT;
  const bar = Math.min(10, width / Math.max(epochs.length, 1));
  return { width, bar };
}

function at(x) {
  const { width, bar } = shape();
  const found = epochs.length - 1 - Math.floor((LEFT + width - x) / bar);
  return found >= 0 && found < epochs.length ? found : null;
}

function choose(number) {
  if (number === chosen) return;
  chosen = number;
  draw();
  const epoch = epochs[number];
  if (!epoch) return;
  const ranges = epoch.ranges.slice(0, 8).map((r) => `${r.topic}-${r.partition} ${r.start}–${r.end}`).join(", ");
  const written = Object.entries(epoch.written).map(([topic, n]) => `${topic} ${count(n)}`).join(", ");
  const took = parts(epoch).filter(([, us]) => us >= 500).map(([step, us]) => `${step} ${span(us / 1e6)}`).join(" · ");
  const rows = [
    ["took", `${span(epoch.duration_us / 1e6)}: ${took}`], ["read", `${count(epoch.records)} records${ranges ? `: ${ranges}` : ""}`],
    ["wrote", written || "nothing"],
  ];
  $("epoch").replaceChildren(el("b", {}, `Epoch ${epoch.epoch}, ${epoch.kind}, ${moment(epoch.committed_at)}`), facts(rows));
}

function draw() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => requestAnimationFrame(() => [(drawing = false), paint()]), 100);
}

function legend(style) {
  const known = [...new Set(epochs.flatMap((epoch) => parts(epoch).map(([step]) => step)))];
  if (known.join() === steps.join()) return;
  steps = known;
  $("legend").replaceChildren(...steps.map((step, n) => {
    const mark = el("i");
    mark.style.background = `var(--s${n % 8})`;
    return el("span", {}, mark, step);
  }));
}

function paint() {
  const canvas = $("timeline");
  const [style, ratio, height] = [getComputedStyle(document.documentElement), window.devicePixelRatio || 1, 180];
  legend(style);
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const { width, bar } = shape();
  if (!epochs.length) return;
  const longest = scale(epochs);
  axis(pen, style, longest, width, height);
  const colours = steps.map((_, n) => style.getPropertyValue(`--s${n % 8}`));
  epochs.forEach((epoch, number) => {
    const x = LEFT + width - (epochs.length - number) * bar;
    let y = height - 4;
    for (const [step, us] of parts(epoch)) {
      const high = Math.min((us / longest) * (height - 16), y);
      pen.fillStyle = colours[steps.indexOf(step)];
      pen.fillRect(x, y - high, Math.max(bar - (bar > 3 ? 1 : 0), 0.6), high);
      y -= high;
    }
    if (number === chosen) [(pen.strokeStyle = style.getPropertyValue("--ink")), pen.strokeRect(x - 0.5, Math.max(1, y - 1), bar + 1, height - 4 - y + 1)];
  });
}

// One epoch that took very long does not make all others invisible: it is cut at four times the usual.
function scale(all) {
  const sorted = all.map((epoch) => epoch.duration_us).sort((a, b) => a - b);
  return Math.max(1000, Math.min(sorted.at(-1) || 0, 4 * (sorted[Math.floor(sorted.length * 0.9)] || 0)));
}

function axis(pen, style, longest, width, height) {
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "right";
  for (const part of [0, 0.5, 1]) {
    const y = height - 4 - part * (height - 16);
    pen.fillStyle = style.getPropertyValue("--line");
    pen.fillRect(LEFT, y, width, 1);
    pen.fillStyle = style.getPropertyValue("--soft");
    pen.fillText(span((longest * part) / 1e6), LEFT - 8, y + 4);
  }
}
