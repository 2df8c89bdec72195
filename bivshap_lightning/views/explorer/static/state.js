// What is shown, in one place: every control changes it, every view is drawn from it, and the address keeps it.

const KEYS = ["run", "tag", "step", "subject", "gamma", "rule", "view", "beside", "selected", "ranking", "with"];
const HASH_KEY = "explorer";

/** State with listeners. */
export class Store {
  constructor(initial) {
    this.state = initial;
    this.listeners = [];
  }

  /** Changes some entries and tells all listeners which. */
  set(changes) {
    const changed = Object.keys(changes).filter((key) => this.state[key] !== changes[key]);
    if (!changed.length) return;
    this.state = { ...this.state, ...changes };
    for (const listener of this.listeners) listener(new Set(changed));
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }
}

/** The window whose address a reader copies: TensorBoard's own where the tab may reach it, otherwise this one. */
function addressWindow() {
  try {
    if (window.parent !== window && window.parent.location.origin === window.location.origin) return window.parent;
  } catch {
    // A frame of another origin, as in Colab.
  }
  return window;
}

/** What the address says about the state. */
export function readAddress() {
  const parts = addressWindow().location.hash.replace(/^#/, "").split("&");
  const own = parts.find((part) => part.startsWith(`${HASH_KEY}=`));
  const found = {};
  if (!own) return found;
  try {
    const query = new URLSearchParams(decodeURIComponent(own.slice(HASH_KEY.length + 1)));
    for (const key of KEYS) if (query.has(key)) found[key] = query.get(key);
  } catch {
    return {}; // an address that was cut off
  }
  for (const key of ["step", "gamma"]) {
    if (key in found) found[key] = Number.isFinite(Number(found[key])) ? Number(found[key]) : null;
  }
  return found;
}

/** Puts the state into the address, without a new entry in the history. */
export function writeAddress(state, tab) {
  const query = new URLSearchParams();
  for (const key of KEYS) {
    if (state[key] !== null && state[key] !== undefined && state[key] !== "") query.set(key, String(state[key]));
  }
  const target = addressWindow();
  const others = target.location.hash
    .replace(/^#/, "")
    .split("&")
    .filter((part) => part && !part.startsWith(`${HASH_KEY}=`));
  const first = others.length ? others : [tab];
  try {
    const hash = `#${[...first, `${HASH_KEY}=${encodeURIComponent(query.toString())}`].join("&")}`;
    const { pathname, search } = target.location; // spelled out, because TensorBoard's frame has another base address
    target.history.replaceState(target.history.state, "", `${pathname}${search}${hash}`);
  } catch {
    // Some frames may not change their address; the explorer works without.
  }
}
