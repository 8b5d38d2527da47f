// Records that failed, and dead letters with the way back.
import { $, count, el, facts, fill, moment, shownJson } from "./dom.js";
import { change, get, notice } from "./api.js";

const EVERY = 5000;
let askedAt = 0;
let askedFor = null;

export function showErrors(now) {
  const dropped = Object.entries(now.nodes).flatMap(([node, seen]) => Object.entries(seen.dropped).map(([reason, n]) => [node, reason, n]));
  fill($("errors-body"), [now.ended, now.groups, now.failures, dropped, now.retries], () => {
    const parts = [];
    if (now.ended) parts.push(endedBlock(now.ended));
    parts.push(...now.groups.map(groupBlock));
    if (now.failures.length) parts.push(failuresBlock(now));
    if (dropped.length) parts.push(el("p", { className: "quiet" }, `Dropped: ${dropped.map(([node, reason, n]) => `${count(n)} at ${node} (${reason})`).join(", ")}`));
    return parts.length ? parts : [el("p", { className: "quiet" }, "Nothing has failed.")];
  });
}

function endedBlock(ended) {
  const more = ended.traceback ? el("details", {}, el("summary", {}, "Stack trace"), el("pre", {}, ended.traceback)) : null;
  const rows = [["node", ended.node], ["record", ended.record], ["function", ended.function]];
  return el("div", { className: "group", id: "ended" }, el("header", {}, el("h3", {}, `Ended by ${ended.error}`)), facts(rows), el("pre", {}, ended.message), more);
}

function groupBlock(group) {
  const head = el("header", {}, el("span", { className: "count" }, count(group.count)), el("h3", {}, `${group.exception} at ${group.node}`), el("span", { className: "quiet" }, `${group.reason.replace("_", " ")}, ${group.action.replace("_", " ")}`));
  const last = group.examples.at(-1);
  if (!last) return el("div", { className: "group" }, head);
  const rows = [["message", last.message], ["your code", last.line], ["function", last.function], ["records", group.examples.map((each) => each.record).filter(Boolean).join(", ")]];
  return el("div", { className: "group" }, head, facts(rows));
}

function failuresBlock(now) {
  const lines = now.failures.map((each) => `${moment(each.at)}  epoch ${each.epoch}, ${each.step}: ${each.error}: ${each.message}`);
  return el("details", { className: "group" }, el("summary", {}, `${count(now.retries)} epochs were run again`), el("pre", {}, lines.join("\n")));
}

export async function showLetters(now) {
  if (!now.dead_letter_topic) {
    $("letters-note").textContent = "";
    fill($("letters-body"), "none", () => [el("p", { className: "quiet" }, "This application keeps no dead letters: see the setting dead_letter_topic.")]);
    return;
  }
  const letters = now.produced[now.dead_letter_topic] || 0;
  // the topic is read only if something has come to it, and not too often
  if (letters === askedFor || Date.now() - askedAt < EVERY) return;
  [askedFor, askedAt] = [letters, Date.now()];
  try {
    draw(await get("v1/dead-letters"));
  } catch (error) {
    askedFor = null;
    $("letters-note").textContent = error.message;
  }
}

function draw(data) {
  $("letters-note").textContent = `${count(data.found)} in ${data.topic}${data.older ? ", and older ones" : ""}`;
  fill($("letters-body"), data, () => {
    if (!data.letters.length) return [el("p", { className: "quiet" }, "No dead letters.")];
    return [...data.kinds.map(kindBlock), el("h3", {}, "Newest"), ...data.letters.map(letterBlock)];
  });
}

function kindBlock(kind) {
  const left = kind.not_redriven;
  const chosen = Object.fromEntries(["node", "exception"].filter((name) => kind[name]).map((name) => [name, kind[name]]));
  const body = Object.keys(chosen).length ? chosen : { all: true };
  const button = el("button", { type: "button", disabled: !left, on: { click: () => redrive(body, button) } }, `Redrive all ${count(left)}`);
  return el("div", { className: "group" }, el("header", {}, el("span", { className: "count" }, count(kind.letters)), el("h3", {}, `${kind.exception || "late"} at ${kind.node || "?"}`), el("span", { className: "quiet" }, `${count(left)} not redriven`), el("span", { className: "space" }), button));
}

function letterBlock(letter) {
  const place = `${letter.partition}/${letter.offset}`;
  const source = letter.source ? `${letter.source.topic}-${letter.source.partition}@${letter.source.offset}` : "no source record";
  const more = el("div", {}, el("p", { className: "quiet" }, "…"));
  const button = el("button", { type: "button", disabled: letter.redriven !== null, on: { click: () => redrive({ positions: [[letter.partition, letter.offset]] }, button) } }, letter.redriven === null ? "Redrive" : "Redriven");
  const line = el("summary", {}, `${source} · ${letter.exception || "late"} at ${letter.node || "?"} · ${moment(letter.timestamp)}${letter.redriven === null ? "" : " · redriven"}`);
  const block = el("details", { className: "group letter", dataset: { place } }, line, el("p", {}, letter.reason || ""), button, more);
  block.addEventListener("toggle", async () => block.open && more.replaceChildren(...(await whole(place))), { once: true });
  return block;
}

async function whole(place) {
  try {
    const letter = await get(`v1/dead-letters/${place}`);
    const raw = (data) => (data === null ? "null" : data.text ?? `${data.bytes} (base64)`);
    const value = letter.decoded.value?.error ? raw(letter.value) : letter.decoded.value ?? raw(letter.value);
    return [facts([["key", shownJson(letter.decoded.key ?? raw(letter.key))], ["value", shownJson(value)]]), el("pre", {}, letter.stacktrace || shownJson(letter.details))];
  } catch (error) {
    return [el("p", {}, error.message)];
  }
}

async function redrive(body, button) {
  button.disabled = true;
  const done = await change("v1/dead-letters/redrive", body);
  if (done) {
    const refused = done.refused.length ? `; ${count(done.refused.length)} cannot be: ${done.refused[0].why}` : "";
    notice(`${count(done.records)} records written again${refused}`);
    askedFor = null;
    askedAt = 0;
  } else button.disabled = false;
}
