// Stores: how large, a look-up box, and changes as they come.
import { $, bytes, count, el, moment, short, shownJson, table } from "./dom.js";
import { get } from "./api.js";

const MOST_ROWS = 40;
const cards = {};
let asked = false;

export function showStores(now, before) {
  if (!asked && now.state !== "CREATED") {
    asked = true;
    get("v1/stores").then((data) => data.stores.forEach(makeCard)).catch(() => (asked = false));
  }
  const seconds = before ? (now.now_ms - before.now_ms) / 1000 : 0;
  for (const [name, card] of Object.entries(cards)) {
    const [store, old] = [now.stores[name] || {}, before?.stores[name] || {}];
    const changes = seconds && store.changed !== undefined ? (store.changed - (old.changed || 0)) / seconds : null;
    card.numbers.textContent = [
      store.entries === undefined ? null : `${count(store.entries)} entries`, store.bytes === undefined ? null : bytes(store.bytes),
      changes === null ? null : `${short(changes)} changes/s`,
    ].filter(Boolean).join(" · ");
  }
}

function makeCard(store) {
  const numbers = el("span", { className: "quiet" });
  const answer = el("div", { id: `answer-${store.name}` });
  answer.setAttribute("aria-live", "polite");
  const input = el("input", { id: `key-${store.name}`, placeholder: "key", autocomplete: "off", spellcheck: false });
  input.setAttribute("aria-label", `Key to look up in ${store.name}`);
  const form = el("form", { on: { submit: (event) => [event.preventDefault(), lookUp(store, input.value, answer)] } }, input, el("button", { className: "main" }, "Look up"));
  const rows = el("button", { type: "button", on: { click: () => countRows(store, rows) } }, "Count rows");
  const live = el("button", { type: "button", id: `live-${store.name}` }, "Live changes");
  const feed = el("div", { className: "scroll" });
  live.addEventListener("click", () => follow(store, live, feed));
  if (store.routes.length) form.append(rows);
  if (store.changes) form.append(live);
  const facts = [store.kind.replace("_", "-"), store.persistent ? null : "in memory", store.logged ? null : "not logged", store.global ? "global" : null];
  const head = el("header", {}, el("h3", {}, store.name), el("span", { className: "quiet" }, facts.filter(Boolean).join(", ")), numbers);
  const card = el("div", { className: "store-card", id: `store-${store.name}` }, head, form, answer, feed);
  if (!store.routes.some((route) => route.includes("{key}"))) [...form.children].slice(0, 2).forEach((each) => each.remove());
  $("stores-list").append(card);
  cards[store.name] = { numbers };
}

async function lookUp(store, key, answer) {
  const route = store.routes.find((each) => each.includes("{key}"));
  try {
    const found = await get(route.slice(1).replace("{key}", encodeURIComponent(key)));
    const rows = found.rows || [found];
    const text = rows.length ? rows.map((row) => shownJson(withoutBarrier(row))).join("\n") : "nothing for this key";
    answer.replaceChildren(el("pre", {}, `epoch ${found.epoch}\n${text}`));
  } catch (error) {
    answer.replaceChildren(el("pre", {}, `${error.message}${error.data ? `\n${error.data.remedy}` : ""}`));
  }
}

function withoutBarrier({ epoch, position, found, ...row }) {
  return row;
}

async function countRows(store, button) {
  button.disabled = true;
  try {
    const found = await get(`v1/stores/${encodeURIComponent(store.name)}?rows=1`);
    button.textContent = found.rows === null ? "Cannot be counted" : `${count(found.rows)} rows`;
  } catch (error) {
    button.textContent = error.message;
  }
  button.disabled = false;
}

function follow(store, button, feed) {
  if (feed.source) {
    feed.source.close();
    feed.source = null;
    feed.replaceChildren();
    button.textContent = "Live changes";
    return;
  }
  let shown = [];
  const holder = el("table", { id: `changes-${store.name}` });
  feed.replaceChildren(holder);
  button.textContent = "Stop";
  feed.source = new EventSource(`v1/stores/${encodeURIComponent(store.name)}/changes`);
  feed.source.addEventListener("rows", (event) => {
    shown = [...JSON.parse(event.data).reverse(), ...shown].slice(0, MOST_ROWS);
    table(holder, ["key", "value", "time (UTC)"], shown.map((row) => ({
      cells: [shownJson(row.key), row.deleted ? "deleted" : JSON.stringify(row.value), moment(row.timestamp)],
    })));
  });
}
