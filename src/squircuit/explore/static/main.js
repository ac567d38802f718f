// The page: asks which models there are and what the chosen one is, and shows the part that the address names.

import { ask, cancel, Replaced } from "./ask.js";
import { element, notice, tell } from "./dom.js";
import { showImage } from "./image.js";
import { showModel } from "./model.js";
import { showPair } from "./pair.js";
import { clearState, onState, readState, writeState } from "./state.js";
import { showTable } from "./table.js";

const PAGES = {
  image: { title: "Image", show: showImage, suits: (model) => model.kind === "image" },
  table: { title: "Table", show: showTable, suits: (model) => model.kind === "table" },
  pair: { title: "Two columns", show: showPair, suits: (model) => model.columns.length > 1 },
  model: { title: "Model", show: showModel, suits: () => true },
};

async function start() {
  document.getElementById("cancel").addEventListener("click", cancelAll);
  try {
    const { names } = await ask("shelf");
    if (names.length > 1) document.getElementById("shelf").replaceChildren(shelfMenu(names));
    onState(() => open(names).catch((error) => notice(error.message)));
    await open(names);
  } catch (error) {
    notice(error.message);
  }
}

let opened = null; // the model that is shown, with its name on the shelf

async function open(names) {
  const wished = readState().get("model"), name = names.includes(wished) ? wished : names[0];
  const menu = document.getElementById("models");
  if (menu) menu.value = name;
  if (opened?.key !== name) {
    document.getElementById("main").replaceChildren(element("p", { class: "quiet" }, "Getting the model ready; the first time this may take a minute …"));
    try {
      opened = { key: name, ...(await ask("model")) };
    } catch (error) {
      if (!(error instanceof Replaced)) throw error;
      return document.getElementById("main").replaceChildren(element("p", {}, "Cancelled. ",
        element("button", { type: "button", onclick: () => open(names).catch((failed) => notice(failed.message)) }, "Try again")));
    }
  }
  document.getElementById("title").textContent = opened.name;
  document.title = `${opened.name} – squircuit`;
  show(opened);
}

function shelfMenu(names) {
  const choose = (event) => {
    clearState({ model: event.target.value });
    open(names).catch((error) => notice(error.message));
  };
  return element("select", { id: "models", "aria-label": "Model", onchange: choose }, names.map((name) => element("option", {}, name)));
}

function cancelAll() {
  cancel();
  tell("Cancelled.");
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
