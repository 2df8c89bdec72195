// Names of features in little room: cut in the middle, and so that no two of a graph look the same.

const HEAD = 0.5; // share of the room that goes to the start of a name
const MAX_PIECES = 3; // places shown at which a name differs from others

const CHARACTER = 7.9; // pixels per character below which a name of narrow letters is left as it is
const FONT = "13px system-ui, 'Segoe UI', Roboto, Arial, sans-serif";

/** Short names by graph and length. */
const known = new WeakMap();
let measure = null;

function widthOf(text) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = FONT;
  return measure.measureText(text).width;
}

/** A name that fits into the room of so many characters: its start and its end. */
export function shorten(text, most) {
  const characters = [...text];
  if (characters.length <= most || (characters.length <= 1.4 * most && widthOf(text) <= CHARACTER * most)) return text;
  const head = Math.ceil((most - 1) * HEAD);
  const start = characters.slice(0, head).join("").trimEnd();
  return `${start}…${characters.slice(characters.length - (most - 1 - head)).join("").trimStart()}`;
}

/**
 * Names that fit into so many characters. Those that would look the same show the part in which they differ.
 * @param {string[]} names
 * @param {number} most
 * @returns {string[]}
 */
export function shortenAll(names, most) {
  const short = names.map((name) => shorten(name, most));
  const alike = new Map();
  short.forEach((text, k) => alike.set(text, [...(alike.get(text) ?? []), k]));
  for (const places of alike.values()) {
    const different = [...new Set(places.map((k) => names[k]))];
    if (different.length < 2) continue;
    const cuts = new Map(different.map((name) => [name, []]));
    findCuts(different, cuts);
    for (const k of places) short[k] = piecesOf(names[k], cuts.get(names[k]), most);
  }
  return short;
}

/** Where names differ: from the first such place on, names with the same character there are told apart further. */
function findCuts(names, cuts) {
  if (names.length < 2) return;
  const start = sharedStart(names);
  const parts = new Map();
  for (const name of names) {
    cuts.get(name).push(start);
    parts.set(name[start], [...(parts.get(name[start]) ?? []), name]);
  }
  for (const part of parts.values()) findCuts(part, cuts);
}

/** The start of a name and a piece from each place at which it differs from others. */
function piecesOf(name, cuts, most) {
  const places = cuts.slice(0, MAX_PIECES);
  const head = Math.max(2, Math.floor(most / (places.length + 2)) - 1);
  const length = Math.max(2, Math.floor((most - head - places.length - 1) / places.length)); // ellipses are wide
  let text = name.slice(0, head);
  let end = head;
  for (const place of places) {
    const from = Math.max(end, Math.min(place - 1, name.length - length));
    const to = Math.max(from, Math.min(name.length, Math.max(from + length, place + 1)));
    text += (from > end ? "…" : "") + name.slice(from, to);
    end = to;
  }
  return end < name.length ? `${text}…` : text;
}

/** Names without what all of them start with up to a sign: "part 3" and "part 12" are 3 and 12, "a/x" and "a/y" x and y. */
export function withoutSharedStart(names, signs = [" ", "_", "/"]) {
  const start = names.length > 1 ? sharedStart(names) : 0;
  const cut = Math.max(...signs.map((sign) => (names[0] ?? "").lastIndexOf(sign, start - 1))) + 1;
  return start > 0 ? names.map((name) => name.slice(cut)) : names;
}

/** The short name of a feature of a graph. */
export function shortName(graph, player, most) {
  if (!known.has(graph)) known.set(graph, new Map());
  const ofGraph = known.get(graph);
  if (!ofGraph.has(most)) ofGraph.set(most, shortenAll(graph.names, most));
  return ofGraph.get(most)[player];
}

function sharedStart(names) {
  let length = 0;
  const least = Math.min(...names.map((name) => name.length));
  while (length < least && names.every((name) => name[length] === names[0][length])) length += 1;
  return length;
}
