// The page: asks for the overview once a second while somebody looks, and hands it to the sections.
import { $, count, el, fill, moment, short, span, table } from "./dom.js";
import { change, get, notice } from "./api.js";
import { loadTopology, showTopology } from "./topology.js";
import { startTimeline } from "./timeline.js";
import { showStores } from "./stores.js";
import { showErrors, showLetters } from "./errors.js";

const EVERY = 1000;
const STATES = { RUNNING: "good", ERROR: "bad", NOT_RUNNING: "bad", PENDING_ERROR: "bad", PENDING_SHUTDOWN: "warn" };
let before = null;
let rates = { in: null, out: null };

function rate(now, name) {
  if (before === null || now.now_ms <= before.now_ms) return null;
  return Math.max(0, (now[name] - before[name]) / ((now.now_ms - before.now_ms) / 1000));
}

function showStrip(now) {
  $("application").textContent = now.application_id;
  document.title = `${now.application_id} · Penstock`;
  $("state").textContent = now.paused && now.state === "RUNNING" ? "PAUSED" : now.state;
  $("state").className = `pill ${now.paused ? "warn" : STATES[now.state] || ""}`;
  const step = now.now;
  $("step").textContent = step && step.for_us > 1e6 ? `${step.step} of epoch ${step.epoch}, ${span(step.for_us / 1e6)}` : now.state === "REBALANCING" ? now.phase : "";
  $("pause").hidden = now.state !== "RUNNING" || !now.token;
  $("pause").textContent = now.paused ? "Resume" : "Pause";
  const age = now.last_commit_at === null ? null : Math.max(0, (now.now_ms - now.last_commit_at) / 1000);
  const figures = [
    ["Epoch", count(now.epoch)], ["Last commit", age === null ? "–" : `${span(age)} ago`], ["In", `${short(rates.in)} /s`],
    ["Out", `${short(rates.out)} /s`], ["Lag", count(now.lag)], ["Event-time lag", span(now.event_time_lag)], ["Retries", count(now.retries)],
  ];
  fill($("figures"), figures, () => figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { id: `figure-${name.toLowerCase().replace(" ", "-")}` }, value))));
}

function showFindings(findings) {
  fill($("findings"), findings, () =>
    findings.map((each) => el("li", { className: each.level }, el("a", { href: `#${each.section}` }, el("b", {}, each.title), el("span", {}, each.detail)))));
}

function showInputs(rows) {
  const timed = rows.filter((row) => row.watermark >= 0 && !row.idle);
  const last = Math.min(...timed.map((row) => row.watermark));
  $("inputs-note").textContent = `${rows.length} partitions; marked: the one that event time waits for`;
  fill($("inputs-table"), rows, () => {
    const holder = el("table");
    table(holder, ["topic", "#partition", "#position", "#end", "#lag", "watermark (UTC)", "last record came", "idle"], rows.map((row) => ({
      className: timed.length > 1 && row.watermark === last && !row.idle && timed.some((each) => each.watermark > last) ? "waited" : "",
      cells: [row.topic, row.partition, count(row.position), count(row.end), count(row.lag), moment(row.watermark), moment(row.arrived), row.idle ? "idle" : "no"],
    })));
    return [...holder.children];
  });
}

async function showConfig() {
  const config = await get("v1/config");
  const draw = () => {
    const wanted = $("config-filter").value.toLowerCase();
    const rows = Object.entries(config).filter(([name]) => name.includes(wanted));
    table($("config-table"), ["setting", "value"], rows.map(([name, value]) => ({ cells: [name, typeof value === "string" ? value : JSON.stringify(value)] })));
  };
  $("config-filter").addEventListener("input", draw);
  draw();
  const info = await get("v1/info");
  $("version").textContent = `Penstock ${info.version}, ${info.processing_guarantee}, ${info.lanes ?? "?"} lanes, ${info.shards} shards`;
}

async function look() {
  try {
    const now = await get("v1/overview");
    if (before !== null && before.now_ms < now.now_ms) rates = { in: rate(now, "records_in"), out: rate(now, "records_out") };
    showStrip(now);
    showFindings(now.findings);
    showTopology(now, before);
    showInputs(now.inputs);
    showStores(now, before);
    showErrors(now);
    await showLetters(now);
    before = now;
  } catch (error) {
    $("state").textContent = "NO ANSWER";
    $("state").className = "pill bad";
    console.warn(error);
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function startTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = localStorage.getItem("theme") || (dark.matches ? "dark" : "light");
    window.dispatchEvent(new Event("theme"));
  };
  dark.addEventListener("change", apply);
  $("theme").addEventListener("click", () => {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  apply();
}

$("pause").addEventListener("click", async () => {
  const done = await change(before && before.paused ? "v1/resume" : "v1/pause");
  if (done) notice(done.paused ? "Paused: nothing is processed until you resume." : "Resumed.");
});
startTheme();
loadTopology().catch(console.warn);
startTimeline();
showConfig().catch(console.warn);
run();
