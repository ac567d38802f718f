// A column of dates or times: one field sets all of its parts, whose distributions are below it.

import { button, element, notice, percent } from "./dom.js";
import { chartOf } from "./draw.js";

/** A card with a field.
 *  Args: date: its name, the names of its parts, and the kind of the field. change: sets cells by name. */
export function dateCard(date, model, change) {
  const id = `column-${date.name}`, unset = Object.fromEntries(date.parts.map((part) => [part, null]));
  const put = (text) => change({ ...unset, [date.name]: text || null });
  const refuse = () => notice(`${date.name}: no such ${date.field === "time" ? "time" : "date"}, or not all of it. Correct it, or empty it with ×.`);
  const isWrong = () => field.validity.badInput; // what was typed is no date, so the field has no value
  const field = element("input", { type: date.field, id, step: date.step, onchange: () => (isWrong() ? refuse() : put(field.value)), onblur: () => isWrong() && refuse() });
  const clear = button("×", () => {
    field.value = "";
    put("");
    field.focus();
  }, { "aria-label": `${date.name} is unknown` });
  const parts = model.columns.filter((column) => date.parts.includes(column.name)).map((column) => partOf(column, date));
  const node = element("section", { class: "card date", "aria-labelledby": `${id}-name` },
    element("div", { class: "top" }, element("h2", { id: `${id}-name` }, element("label", { for: id }, date.name)), field, clear),
    element("div", { class: "parts" }, parts.map((part) => part.node)),
    ...(date.missing ? [element("p", { class: "words" }, `missing in ${date.missing} training row${date.missing === 1 ? "" : "s"}`)] : []));
  function show(value, found) {
    node.classList.toggle("set", value !== undefined);
    if (document.activeElement !== field || value === undefined) field.value = value ?? "";
    for (const part of parts) part.show(found[part.name]);
  }
  return { node, show };
}

/** The name of a part without that of its date: week_of_4 is "week of 4". */
export function partInWords(name, date) {
  return name.slice(date.name.length + 1).replaceAll("_", " ");
}

/** The distribution of a part, small, with its name. */
function partOf({ name, states }, date) {
  const drawn = element("div", { class: "drawn" }), words = element("p", { class: "words" });
  const node = element("div", {}, element("h3", {}, partInWords(name, date)), drawn, words);
  function show(found) {
    const place = states ? states.indexOf(found.value) : found.value;
    const likeliest = `${found.mode}${states ? `, ${percent(Math.max(...found.values))}` : ""}`;
    words.textContent = found.value === undefined ? `likeliest ${likeliest}` : `${found.value}; the others say ${likeliest}`;
    drawn.replaceChildren(chartOf(found, states, place, `Distribution of ${name}: ${words.textContent}`));
  }
  return { node, name, show };
}
