// To which member of a mixture, or to which class, a row belongs.

import { element, shareList } from "./dom.js";

const MOST = 10;

/** A heading and a list, likeliest first; nothing where there is one member. A class can be chosen, where `choose` is given. */
export function memberList(shares, model, { chosen, choose } = {}) {
  if (!shares.length) return [];
  const named = model.classes.length ? model.classes : shares.map((_, i) => `member ${i + 1}`);
  const order = shares.map((share, i) => [named[i], share]).sort((a, b) => b[1] - a[1]).slice(0, MOST);
  const names = order.map(([name]) => name);
  const list = choose ? shareList(order, { pick: (i) => choose(names[i]), pressed: names.indexOf(chosen) }) : shareList(order);
  list.querySelectorAll("button").forEach((one, i) => (one.dataset.name = names[i]));
  const hint = choose ? [element("p", { class: "words" }, "Choose one: completions are of this class alone.")] : [];
  return [element("h2", {}, model.classes.length ? "Which class?" : "Which member of the mixture?"), list, ...hint];
}
