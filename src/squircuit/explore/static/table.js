// One row of controls, one for each column; what is set moves the distributions of all others.

import { ask, latest } from "./ask.js";
import { dateCard } from "./date.js";
import { button, element, inWords, notice, shareList, tell } from "./dom.js";
import { chartOf, spreadInWords } from "./draw.js";
import { evidence, setCells, tableColumns } from "./evidence.js";
import { memberList } from "./members.js";
import { samplePart, scorePart } from "./rows.js";
import { canScore } from "./server.js";

const LISTED = 6; // states that are listed with their names
const MANY = 24; // columns, of which one is looked for by its name

export function showTable(main, model) {
  const cards = new Map(tableColumns(model).map((column) => [column.name, column.parts ? dateCard(column, model, change) : card(column, change)]));
  const total = element("p", { id: "total" }), members = element("div");
  const forget = button("Forget all", () => change(Object.fromEntries([...model.columns, ...model.dates].map(({ name }) => [name, null]))));
  const refresh = latest(async (isOld) => {
    const cells = evidence(model), count = Object.keys(cells).length;
    const found = await ask("distributions", { evidence: cells });
    if (isOld()) return;
    for (const [name, one] of cards) one.show(cells[name], found.columns[name] ?? found.columns);
    forget.disabled = !count;
    total.textContent = count ? `log p of what is set: ${inWords(found.log_prob)} nats` : "Nothing is set: these are the distributions of all rows.";
    members.replaceChildren(...memberList(found.members, model));
    members.hidden = !found.members.length;
    notice("");
    tell(`${count} of ${cards.size} columns set; all others are up to date.`);
  });
  function change(cells) {
    setCells(cells);
    refresh();
  }
  members.className = "card";
  members.hidden = true;
  main.append(
    element("div", { class: "actions" }, forget, total, ...(cards.size > MANY ? [finder(cards)] : [])),
    element("p", { class: "words" }, "Set any columns: the exact distributions of all others follow. A column that is set shows what the others say of it."),
    element("div", { class: "cards" }, [...cards.values()].map((one) => one.node)),
    samplePart(model),
    ...(canScore ? [scorePart(model)] : []),
    members,
  );
  refresh();
}

/** How many rows of the training data lacked a column. */
function gapsOf({ missing }) {
  return missing ? [element("p", { class: "words" }, `missing in ${inWords(missing)} training row${missing === 1 ? "" : "s"}`)] : [];
}

/** A field that leaves the columns whose names have its text. */
function finder(cards) {
  const find = (event) => cards.forEach(({ node }, name) => (node.hidden = !name.toLowerCase().includes(event.target.value.toLowerCase())));
  return element("input", { type: "search", placeholder: "find a column", "aria-label": "Find a column", oninput: find });
}

/** A column: its control, its distribution, and where that lies in words. */
function card(column, change) {
  const id = `column-${column.name}`, states = column.states;
  const control = states && column.kind !== "count" ? menu(column, id, change) : slider(column, id, change);
  const drawn = element("div", { class: "drawn" }), words = element("p", { class: "words" });
  const node = element("section", { class: "card", "aria-labelledby": `${id}-name` },
    element("div", { class: "top" }, element("h2", { id: `${id}-name` }, element("label", { for: id }, column.name)), ...control.top),
    drawn, ...control.below, words, ...gapsOf(column));
  const pick = (i) => change({ [column.name]: states[i] });
  function show(value, found) {
    node.classList.toggle("set", value !== undefined);
    control.show(value, found);
    const said = spreadInWords(found, states), place = states ? states.indexOf(value) : value;
    const label = `Distribution of ${column.name}: ${said}`, isListed = states && column.kind !== "count" && states.length <= LISTED;
    words.textContent = isListed ? "" : value === undefined ? said : `set to ${inWords(value)}; the others say ${said}`;
    if (isListed) {
      drawn.replaceChildren(shareList(states.map((state, i) => [String(state), found.values[i]]), { pick }));
      drawn.querySelectorAll(".share").forEach((one, i) => one.classList.toggle("chosen", i === place));
      drawn.firstChild.setAttribute("aria-label", label);
    } else drawn.replaceChildren(chartOf(found, states, place, label));
  }
  return { node, show };
}

function menu(column, id, change) {
  const choose = (event) => change({ [column.name]: event.target.value === "" ? null : column.states[event.target.value] });
  const options = column.states.map((state, i) => element("option", { value: i }, String(state)));
  const node = element("select", { id, onchange: choose }, element("option", { value: "" }, "unknown"), options);
  return { top: [node], below: [], show: (value) => (node.value = value === undefined ? "" : String(column.states.indexOf(value))) };
}

function slider(column, id, change) {
  const [low, high] = column.states ? [column.states[0], column.states.at(-1)] : [column.low, column.high];
  const step = column.states ? 1 : column.step || Number(((high - low) / 200).toPrecision(1));
  const put = (text) => change({ [column.name]: text === "" ? null : Number(text) });
  const typed = element("input", { type: "number", id, step: "any", placeholder: "unknown", onchange: (event) => put(column.fixed && event.target.value ? rounded(event.target.value, step) : event.target.value) });
  const range = element("input", { type: "range", min: low, max: high, step: column.states || column.step ? step : "any", "aria-label": `${column.name}, slider`, oninput: (event) => put(rounded(event.target.value, step)) });
  const clear = button("×", () => {
    put("");
    typed.focus();
  }, { "aria-label": `${column.name} is unknown`, hidden: true });
  range.addEventListener("keydown", (event) => {
    const sign = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
    if (!sign || range.step !== "any") return; // the browser's own steps are of 1
    event.preventDefault();
    range.value = Number(range.value) + sign * step;
    put(rounded(range.value, step));
  });
  function show(value, found) {
    clear.hidden = value === undefined;
    range.classList.toggle("unset", value === undefined);
    if (document.activeElement !== typed || value === undefined) typed.value = value === undefined ? "" : value;
    if (document.activeElement !== range || value === undefined) range.value = value === undefined ? (found.mean ?? found.mode) : value;
    range.setAttribute("aria-valuetext", value === undefined ? "unknown" : String(value));
  }
  return { top: [typed, clear], below: [element("div", { class: "drawn slide" }, range)], show };
}

/** A number of a slider with no more digits than its step has. */
function rounded(text, step) {
  return String(Number((Math.round(Number(text) / step) * step).toPrecision(12)));
}
