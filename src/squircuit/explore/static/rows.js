// Rows of a table: sampled ones to copy, and a pasted one that is scored.

import { ask, Replaced } from "./ask.js";
import { button, element, inWords, notice, percent, tableOf, tell } from "./dom.js";
import { evidence, tableColumns } from "./evidence.js";
import { readState, writeState } from "./state.js";

const ROWS = 10;

/** Samples given what is set, as a table to copy. */
export function samplePart(model) {
  const place = element("div", { class: "scroll rows", tabindex: 0, role: "region", "aria-label": "Sampled rows" });
  let found = null;
  const draw = reported(async () => {
    const seed = Number(readState().get("seed") ?? 0) + 1;
    writeState({ seed: String(seed) });
    found = await ask("samples", { evidence: evidence(model), count: ROWS, seed });
    copy.disabled = false;
    place.replaceChildren(tableOf(found.names, found.rows.map((row) => row.map((cell) => inWords(cell, 6)))));
    tell(`${found.rows.length} rows sampled.`);
  });
  async function toClipboard() {
    const text = [found.names, ...found.rows].map((row) => row.map((cell) => cell ?? "").join("\t")).join("\n");
    try {
      await navigator.clipboard.writeText(text);
      tell("Copied: paste it into a spreadsheet.");
    } catch {
      notice("The browser does not let this page copy. Select the rows and copy them.");
    }
  }
  const copy = button("Copy", toClipboard, { disabled: true });
  return element("section", { class: "card" }, element("h2", {}, "Rows like this"),
    element("div", { class: "actions" }, button("Sample rows", draw), copy), place);
}

/** A row that is pasted: how likely it is, and which of its cells is odd. */
export function scorePart(model) {
  const text = element("textarea", { id: "pasted", rows: 2, placeholder: tableColumns(model).map((column) => column.name).join(", ") });
  const place = element("div", { class: "scroll", "aria-live": "polite" });
  const score = reported(async () => {
    place.replaceChildren();
    const found = await ask("score", { text: text.value });
    const odd = found.cells.find((cell) => cell.column === found.oddest);
    const rows = found.cells.map((cell) => [cell.column, String(cell.value), inWords(cell.likeliest), percent(cell.tail)]);
    place.replaceChildren(
      element("p", {}, `log p ${inWords(found.log_prob)} nats. The oddest cell is `, element("strong", {}, odd.column),
        `: given all others, values as unlikely as ${odd.value} have ${percent(odd.tail)} of the probability.`),
      tableOf(["column", "cell", "likeliest", "so odd or odder"], rows, found.cells.map((cell) => (cell === odd ? "odd" : null))),
    );
  });
  return element("section", { class: "card" }, element("h2", {}, element("label", { for: "pasted" }, "Score a row")),
    element("p", { class: "words" }, "Paste a row, with tabs, commas or semicolons between its cells; a line of names above is welcome, and empty cells are unknown."),
    text, element("div", { class: "actions" }, button("Score", score)), place);
}

/** The same work, whose errors are shown on the page. */
function reported(work) {
  return async () => {
    try {
      await work();
      notice("");
    } catch (error) {
      if (!(error instanceof Replaced)) notice(error.message);
    }
  };
}
