// One row of controls, one for each column; what is set moves the distributions of all others.

import { ask, latest } from "./ask.js";
import { element, inWords, notice, percent, tell } from "./dom.js";
import { bars, curve, spreadInWords } from "./draw.js";
import { evidence, setCells } from "./evidence.js";
import { readState, writeState } from "./state.js";

const MENU = 40; // states that a menu lists
const ROWS = 10;

export function showTable(main, model) {
  const cards = new Map(model.columns.map((column) => [column.name, card(column, change)]));
  const total = element("p", { id: "total" }), members = element("div");
  const refresh = latest(async (isOld) => {
    const cells = evidence(model);
    const found = await ask("distributions", { evidence: cells });
    if (isOld()) return;
    for (const column of model.columns) cards.get(column.name).show(cells[column.name], found.columns[column.name]);
    const count = Object.keys(cells).length;
    total.textContent = count ? `log p of what is set: ${inWords(found.log_prob)} nats` : "Nothing is set: these are the distributions of all rows.";
    members.replaceChildren(...memberBars(found.members, model));
    notice("");
    tell(`${count} of ${model.columns.length} columns set; all others are up to date.`);
  });
  function change(cells) {
    setCells(cells);
    refresh();
  }
  const forget = () => change(Object.fromEntries(model.columns.map((column) => [column.name, null])));
  main.append(
    element("p", {}, "Set some columns: the exact distributions of all others follow. Empty means unknown."),
    element("div", { class: "actions" }, element("button", { type: "button", onclick: forget }, "Forget all"), total),
    element("div", { class: "cards" }, [...cards.values()].map((one) => one.node)),
    members,
    rowsPart(model),
    scorePart(model, change),
  );
  refresh();
}

/** A column: its control, its distribution, and where that lies in words. */
function card(column, change) {
  const id = `column-${column.name}`;
  const control = column.states && column.states.length <= MENU ? menu(column, id, change) : slider(column, id, change);
  const drawn = element("div", { class: "drawn" }), words = element("p", { class: "words" });
  const node = element("section", { class: "card", "aria-labelledby": `${id}-name` },
    element("h2", { id: `${id}-name` }, element("label", { for: id }, column.name)), control.node, drawn, words);
  function show(value, found) {
    node.classList.toggle("set", value !== undefined);
    control.show(value, found);
    if (!found) {
      drawn.replaceChildren();
      words.textContent = value === undefined ? "" : `set to ${value}`;
      return;
    }
    words.textContent = spreadInWords(found, column.states);
    const label = `Distribution of ${column.name}: ${words.textContent}`;
    const ends = found.quantiles && [found.quantiles[0], found.quantiles[2]];
    drawn.replaceChildren(column.states ? bars(found.values, column.states, label) : curve(found.points, found.values, ends, label));
  }
  return { node, show };
}

function menu(column, id, change) {
  const choose = (event) => change({ [column.name]: event.target.value === "" ? null : column.states[event.target.value] });
  const options = column.states.map((state, i) => element("option", { value: i }, String(state)));
  const node = element("select", { id, onchange: choose }, element("option", { value: "" }, "unknown"), options);
  return { node, show: (value) => (node.value = value === undefined ? "" : String(column.states.indexOf(value))) };
}

function slider(column, id, change) {
  const [low, high] = column.states ? [column.states[0], column.states.at(-1)] : [column.low, column.high];
  const step = column.states ? 1 : column.step || Number(((high - low) / 200).toPrecision(1));
  const put = (text) => change({ [column.name]: text === "" ? null : Number(text) });
  const typed = element("input", { type: "number", id, step: "any", placeholder: "unknown", onchange: (event) => put(event.target.value) });
  const range = element("input", { type: "range", min: low, max: high, step, "aria-label": column.name, oninput: (event) => put(event.target.value) });
  const clear = element("button", { type: "button", "aria-label": `${column.name} is unknown`, onclick: () => put("") }, "×");
  function show(value, found) {
    clear.disabled = value === undefined;
    if (document.activeElement !== typed) typed.value = value === undefined ? "" : value;
    range.value = value === undefined ? (found?.mean ?? found?.mode ?? (low + high) / 2) : value;
  }
  return { node: element("div", { class: "slider" }, range, typed, clear), show };
}

export function memberBars(shares, model) {
  if (!shares.length) return [];
  const named = model.classes.length ? model.classes : shares.map((_, i) => `member ${i + 1}`);
  const order = shares.map((share, i) => [share, named[i]]).sort((a, b) => b[0] - a[0]).slice(0, 10);
  const items = order.map(([share, name]) =>
    element("li", {}, element("span", {}, name), element("meter", { value: share, max: 1, "aria-label": name }), element("span", {}, percent(share))));
  return [element("h2", {}, model.classes.length ? "Which class?" : "Which member of the mixture?"), element("ul", { class: "shares" }, items)];
}

/** Samples given what is set, as a table to copy. */
function rowsPart(model) {
  const place = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Sampled rows" });
  let found = null;
  async function draw() {
    const seed = Number(readState().get("seed") ?? 0) + 1;
    writeState({ seed: String(seed) });
    try {
      found = await ask("samples", { evidence: evidence(model), count: ROWS, seed });
    } catch (error) {
      return notice(error.message);
    }
    copy.disabled = false;
    place.replaceChildren(tableOf(found.names, found.rows.map((row) => row.map((cell) => inWords(cell, 6)))));
    tell(`${found.rows.length} rows sampled.`);
  }
  async function toClipboard() {
    const text = [found.names, ...found.rows].map((row) => row.join("\t")).join("\n");
    try {
      await navigator.clipboard.writeText(text);
      tell("Copied.");
    } catch {
      notice("The browser does not let this page copy. Select the rows and copy them.");
    }
  }
  const copy = element("button", { type: "button", disabled: true, onclick: toClipboard }, "Copy");
  return element("section", {}, element("h2", {}, "Sample rows"),
    element("div", { class: "actions" }, element("button", { type: "button", onclick: draw }, "Sample rows like this"), copy), place);
}

/** A row that is pasted: how likely it is, and which of its cells is odd. */
function scorePart(model, change) {
  const text = element("textarea", { id: "pasted", rows: 2, placeholder: model.columns.map((column) => column.name).join(", ") });
  const place = element("div", { class: "scroll", "aria-live": "polite" });
  async function score() {
    try {
      const found = await ask("score", { text: text.value });
      notice("");
      const odd = found.cells.find((cell) => cell.column === found.oddest);
      const rows = found.cells.map((cell) => [cell.column, cell.value, percent(cell.tail), String(inWords(cell.likeliest))]);
      place.replaceChildren(
        element("p", {}, `log p ${inWords(found.log_prob)} nats. Oddest cell: `, element("strong", {}, odd.column),
          `; values as unlikely as ${odd.value} have ${percent(odd.tail)} beside the others.`),
        tableOf(["column", "cell", "as unlikely or more so", "likeliest"], rows, found.cells.indexOf(odd)),
      );
    } catch (error) {
      notice(error.message);
    }
  }
  return element("section", {}, element("h2", {}, element("label", { for: "pasted" }, "Score a row")),
    element("p", {}, "Paste a row of cells, with tabs, commas or semicolons between them; a line of names above is welcome."),
    text, element("div", { class: "actions" }, element("button", { type: "button", onclick: score }, "Score")), place);
}

export function tableOf(names, rows, marked = -1) {
  const head = element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((row, i) => element("tr", { class: i === marked ? "odd" : null }, row.map((cell) => element("td", {}, cell ?? ""))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, body));
}
