// The cells of a table that are set, as the address has them: set.NAME=VALUE.

import { readState, writeState } from "./state.js";

const SET = "set.";

/** The cells that are set, by name, as the program wants them. */
export function evidence(model) {
  const state = readState(), cells = {};
  for (const column of model.columns) {
    const text = state.get(SET + column.name);
    if (text === undefined) continue;
    const known = column.states?.find((state) => String(state) === text); // what is not known, the program refuses in words
    cells[column.name] = known ?? (text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text));
  }
  for (const { name } of model.dates) if (state.has(SET + name)) cells[name] = state.get(SET + name);
  return cells;
}

/** The columns of the table in order: dates in place of their parts. */
export function tableColumns(model) {
  const dates = new Map(model.dates.flatMap((date) => date.parts.map((part) => [part, date])));
  return [...new Set(model.columns.map((column) => dates.get(column.name) ?? column))];
}

/** Set cells, or forget those that are null. */
export function setCells(cells) {
  writeState(Object.fromEntries(Object.entries(cells).map(([name, value]) => [SET + name, value === null ? null : String(value)])));
}
