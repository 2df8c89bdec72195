// Elements, texts and colours. No markup is ever made from strings: names come from data and stay text.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Roles of features: colour (Okabe and Ito), sign and meaning. The sign tells roles apart without colour. */
export const ROLES = {
  essential: { colour: "var(--essential)", sign: "●", words: "no other feature makes it redundant" },
  interchangeable: { colour: "var(--interchangeable)", sign: "◆", words: "any one of its group will do" },
  redundant: { colour: "var(--redundant)", sign: "▽", words: "says nothing new once another feature is present" },
  irrelevant: { colour: "var(--irrelevant)", sign: "○", words: "changes nothing beyond gamma" },
  undecided: { colour: "var(--undecided)", sign: "?", words: "the estimate is too noisy to tell" },
};

/** Colours of groups, in the order in which groups are numbered. */
export const GROUP_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#B8A800"];

/** @typedef {Node|string|null|undefined|false} Child */

/**
 * Creates an HTML element.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Object<string, any>} attributes functions become listeners, false and null are left out
 * @param {...(Child|Child[])} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/**
 * Creates an SVG element, as `el` does.
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

/**
 * The element that an event happened to, or the closest one around it that a selector names.
 * @param {Event} event
 * @param {string} selector
 * @returns {HTMLElement|null}
 */
export function closest(event, selector) {
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else if (key === "style") Object.assign(node.style, value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** Replaces all children. */
export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A number with at most four significant digits. */
export function format(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** "1 feature", "2 features". */
export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

/** Names in a sentence; of many, the first. */
export function listing(names, most = 6) {
  if (names.length > most) return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names.join("");
}

/** Ticks of an axis: about `n` round numbers between two values. */
export function ticks(low, high, n = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step);
  return found;
}

/** A labelled sign of a role. */
export function roleMark(role) {
  const known = ROLES[role];
  return el("span", { class: "role", style: { color: known.colour }, title: known.words }, `${known.sign} ${role}`);
}
