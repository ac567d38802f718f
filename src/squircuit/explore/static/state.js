// What is shown, in the address after "#", so that a view can be kept, shared and gone back to.

const listeners = [];

/** The entries of the address: page=table&set.age=31 as a Map. */
export function readState() {
  return new Map(new URLSearchParams(location.hash.slice(1)));
}

/** Change some entries (null: leave out). Changes of the page are steps of the way back, others are not. */
export function writeState(changes, isStep = false) {
  const state = readState();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") state.delete(name);
    else state.set(name, value);
  }
  const address = `#${new URLSearchParams([...state])}`;
  if (address === (location.hash || "#")) return;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Forget all but this, a step of the way back. */
export function clearState(entries) {
  history.pushState(null, "", `#${new URLSearchParams(entries)}`);
}

/** Call when the address was changed by the user. */
export function onState(listener) {
  listeners.push(listener);
}

addEventListener("popstate", () => listeners.forEach((listener) => listener()));
