// The page: asks what the model is, and shows the part that the address names.

import { ask, cancel } from "./ask.js";
import { element, notice } from "./dom.js";
import { showImage } from "./image.js";
import { showModel } from "./model.js";
import { showPair } from "./pair.js";
import { onState, readState, writeState } from "./state.js";
import { showTable } from "./table.js";

const PAGES = {
  image: { title: "Image", show: showImage, suits: (model) => model.kind === "image" },
  table: { title: "Table", show: showTable, suits: (model) => model.kind === "table" },
  pair: { title: "Two columns", show: showPair, suits: (model) => model.columns.length > 1 },
  model: { title: "Model", show: showModel, suits: () => true },
};

async function start() {
  document.getElementById("cancel").addEventListener("click", cancel);
  try {
    const model = await ask("model");
    document.getElementById("title").textContent = model.name;
    document.title = `${model.name} – squircuit`;
    onState(() => show(model));
    show(model);
  } catch (error) {
    notice(error.message);
  }
}

function show(model) {
  const names = Object.keys(PAGES).filter((name) => PAGES[name].suits(model));
  const wished = readState().get("page");
  const chosen = names.includes(wished) ? wished : names[0];
  document.getElementById("tabs").replaceChildren(...names.map((name) => tab(model, name, name === chosen)));
  const main = document.getElementById("main");
  main.replaceChildren();
  notice("");
  PAGES[chosen].show(main, model);
}

function tab(model, name, isChosen) {
  const go = (event) => {
    event.preventDefault();
    writeState({ page: name }, true);
    show(model);
    document.querySelector("#tabs [aria-current]").focus();
  };
  return element("a", { href: `#page=${name}`, "aria-current": isChosen ? "page" : null, onclick: go }, PAGES[name].title);
}

start();
