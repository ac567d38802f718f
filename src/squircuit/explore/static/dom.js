// Elements, and numbers in words.

const SVG = "http://www.w3.org/2000/svg";

/** An element: properties that begin with "on" are listeners, all others attributes; then its children. */
export function element(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

export function svgElement(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) value && made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(title, onclick, more = {}) {
  return element("button", { type: "button", onclick, ...more }, title);
}

/** A number as people read it; infinities come as texts. */
export function inWords(value, digits = 4) {
  if (typeof value !== "number") return value === "-inf" ? "−∞" : value === null ? "–" : String(value);
  const text = Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${inWords(100 * share, share < 0.1 ? 2 : 3)} %`;
}

/** Names and probabilities as a list with bars.
 *  Args: entries: [name, share] each. pick: is called with the number of an entry that is clicked. pressed: the number
 *  of the one that is chosen; where it is given, the entries are buttons. */
export function shareList(entries, { pick = null, pressed } = {}) {
  return element("ul", { class: "shares" }, entries.map(([name, share], i) => {
    const fill = element("span");
    fill.style.width = `${(100 * share).toFixed(2)}%`;
    const parts = [element("span", { title: name }, name), element("span", { class: "track" }, fill), element("span", {}, percent(share))];
    const onclick = pick && (() => pick(i));
    return element("li", {}, pressed === undefined
      ? element("div", { class: `share ${pick ? "pick" : ""}`, onclick }, parts)
      : button(parts, onclick, { class: "share", "aria-pressed": String(i === pressed) }));
  }));
}

export function tableOf(names, rows, classes = []) {
  const head = element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((row, i) => element("tr", { class: classes[i] }, row.map((cell) => element("td", {}, cell ?? ""))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, body));
}

/** What screen readers hear, and all see below the page. */
export function tell(text) {
  document.getElementById("status").textContent = text;
}

/** What went wrong, on top of the page; empty: nothing. */
export function notice(text) {
  const place = document.getElementById("notice");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}
