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
  return cells;
}

/** Set cells, or forget those that are null. */
export function setCells(cells) {
  writeState(Object.fromEntries(Object.entries(cells).map(([name, value]) => [SET + name, value === null ? null : String(value)])));
}
