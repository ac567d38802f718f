// How the program is reached: questions to it, how far its answers are, and the end of all of them.

import { notice } from "./dom.js";

export const canScore = true;
const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
const AGAIN = 1500; // milliseconds between attempts to reach the program

/** The answer to a question; null where a newer one made it idle; an Error has a line for the user. */
export async function answered(kind, question, signal) {
  for (;;) {
    const done = await reached(`ask/${kind}`, { ...question, page }, signal);
    if (signal.aborted) return null;
    if (done) {
      notice("");
      const answer = await done.json();
      if (done.ok) return answer;
      if (done.status === 409) return null;
      if (done.status !== 429 && done.status !== 503) throw new Error(answer.error);
    } else {
      notice("The program does not answer. Was it ended? Start it again: this page then goes on.");
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
    if (signal.aborted) return null;
  }
}

async function reached(address, question, signal) {
  try {
    return await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
      signal,
    });
  } catch {
    return null;
  }
}

/** How far the answers are, from 0 to 1; null where the program is not there. */
export async function progress() {
  try {
    const shares = Object.values(await (await fetch(`progress/${page}`)).json());
    return shares.length ? Math.min(...shares.map((share) => share ?? 0)) : 0;
  } catch {
    return null; // the question itself will say so
  }
}

export function endAll() {
  reached(`cancel/${page}`, {});
}
