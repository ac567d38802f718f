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
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A number as people read it; infinities come as texts. */
export function inWords(value, digits = 4) {
  if (typeof value !== "number") return value === "-inf" ? "−∞" : value === null ? "–" : String(value);
  const text = Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${inWords(100 * share, share < 0.1 ? 2 : 3)} %`;
}

/** What screen readers hear, and all see below the page. */
export function tell(text) {
  document.getElementById("status").textContent = text;
}

/** What went wrong, on top of the page; empty: nothing. */
export function notice(text) {
  const place = document.getElementById("notice");
  place.textContent = text;
  place.hidden = !text;
}
