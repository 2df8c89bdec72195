// E2, C or H as a heat map, players ordered by group: for graphs that are too dense to draw.

import { count, el, format, svg } from "./dom.js";
import { shortName } from "./names.js";

export const MATRICES = {
  E2: { title: "E2: importance", words: "row i, column j: importance of i once j is present" },
  C: { title: "C: interaction", words: "what two features take from each other (blue, they replace each other) or give each other (orange, partners)" },
  H: { title: "H: redundancy", words: "row i, column j: whether i makes j redundant at this γ" },
};

const BLUE = [0, 114, 178];
const ORANGE = [230, 159, 0];
const INK = [38, 50, 56];
const LABELLED = 40;
const UPRIGHT = 15; // narrower columns have upright labels, which need less room
const [CHARACTER, CHARACTERS, LEAST_CELL] = [8.2, [16, 13, 10], 11.5];

/** E2 of each graph: its weights transposed. They do not change with gamma. */
const transposed = new WeakMap();

/** @param {import("./index.js").Context} context */
export function drawMatrix(context) {
  const { graph, store } = context;
  const kind = MATRICES[store.state.matrix] && (store.state.matrix !== "C" || graph.axis) ? store.state.matrix : "E2";
  const players = [...new Set([...context.decision.groups.flat(), ...context.order])];
  const values = valuesOf(context, kind);
  const value = (i, j) => values[i * graph.n + j];
  const size = Math.max(300, Math.min(context.width, 760));
  const needed = Math.max(...players.map((player) => [...context.label(player)].length));
  const fitting = CHARACTERS.find((n) => (size - 1.5 * CHARACTER * Math.min(n, needed)) / graph.n > LEAST_CELL);
  const labelled = graph.n <= LABELLED && fitting !== undefined;
  const most = fitting ?? CHARACTERS[0];
  const longest = CHARACTER * Math.min(most, needed);
  const left = labelled ? longest + 14 : 16;
  const top = labelled ? longest + 14 : 16;
  const side = size - left - (labelled ? 0.5 * longest + 12 : 8); // labels of wide columns lean to the right
  const cell = side / graph.n;
  const turn = cell < UPRIGHT ? -90 : -60;
  const fontSize = `${Math.min(13, cell - 0.5)}px`;
  const largest = kind === "H" ? 1 : largestOf(values, graph.n);
  const picture = svg("svg", { viewBox: `0 0 ${size} ${top + side + 8}`, width: size, height: top + side + 8, role: "group", "aria-label": `Matrix ${kind}: ${MATRICES[kind].words}` });
  picture.append(svg("image", { href: heatMap(players, values, largest, kind), x: left, y: top, width: side, height: side, preserveAspectRatio: "none", style: { imageRendering: "pixelated" } }));
  picture.append(svg("rect", { x: left, y: top, width: side, height: side, class: "frame" }));
  if (labelled) {
    players.forEach((player, k) => {
      const middle = (k + 0.5) * cell;
      picture.append(
        svg("text", { x: left - 6, y: top + middle + 4, "text-anchor": "end", class: "label", style: { fontSize }, ...context.mark(player, context.label(player)) }, shortName(graph, player, most)),
        svg("text", { transform: `translate(${left + middle + 3} ${top - 6}) rotate(${turn})`, class: "label", style: { fontSize }, "data-players": player }, shortName(graph, player, most)),
      );
    });
  }
  groupFrames(context, players, left, top, cell).forEach((frame) => picture.append(frame));
  const bands = [svg("rect", { class: "band" }), svg("rect", { class: "band" })];
  picture.append(...bands);
  const said = el("p", { class: "note" }, `${MATRICES[kind].words}. Point at a cell for its names and its number.`);
  followPointer(context, { picture, players, left, top, cell, kind, value, said });
  const position = new Map(players.map((player, k) => [player, k]));
  context.onHover.push((hovered) => {
    bands.forEach((band, k) => {
      const place = position.get(hovered[0] ?? context.selected);
      const shape = place === undefined ? [0, 0, 0, 0] : k ? [left + place * cell, top, cell, side] : [left, top + place * cell, side, cell];
      ["x", "y", "width", "height"].forEach((name, at) => band.setAttribute(name, String(shape[at])));
    });
  });
  const scale = kind === "H" ? "Dark: redundant. Grey: undecided. White: not redundant." : `Blue is negative, orange positive; full colour is ${format(largest)}.`;
  return {
    node: el("div", {}, choice(store, kind, Boolean(graph.axis)), picture, said, el("p", { class: "note" }, `${scale} ${count(graph.n, "feature")}, those of a group side by side${context.decision.groups.length ? " and framed" : ""}.`)),
    get rows() { // a million numbers at 1,024 players: made when they are asked for
      return [[kind, ...players.map(context.label)], ...players.map((i) => [context.label(i), ...players.map((j) => (i === j ? "" : value(i, j)))])];
    },
  };
}

/** The numbers of a matrix, n * n by rows. */
function valuesOf({ graph, decision }, kind) {
  if (kind === "H") return Float32Array.from(decision.redundant, (answer) => [0, 1, 0.4][answer]);
  if (kind === "C") return graph.axis.pairs;
  if (!transposed.has(graph)) {
    const { n, weights } = graph;
    const turned = new Float64Array(n * n);
    for (let i = 0; i < n; i += 1) for (let j = 0; j < n; j += 1) turned[i * n + j] = weights[j * n + i];
    transposed.set(graph, turned);
  }
  return transposed.get(graph);
}

function largestOf(values, n) {
  let largest = 0;
  for (let k = 0; k < values.length; k += 1) if (k % (n + 1)) largest = Math.max(largest, Math.abs(values[k]));
  return largest || 1;
}

function heatMap(players, values, largest, kind) {
  const n = players.length;
  const canvas = el("canvas", { width: n, height: n });
  const context = canvas.getContext("2d");
  const image = context.createImageData(n, n);
  const { data } = image;
  const [negative, positive] = kind === "H" ? [INK, INK] : [BLUE, ORANGE];
  for (let row = 0, at = 0; row < n; row += 1) {
    const start = players[row] * n;
    for (let column = 0; column < n; column += 1, at += 4) {
      const share = row === column ? 0 : values[start + players[column]] / largest;
      const colour = share < 0 ? negative : positive;
      const strength = Math.min(1, Math.abs(share));
      data[at] = 255 + (colour[0] - 255) * strength;
      data[at + 1] = 255 + (colour[1] - 255) * strength;
      data[at + 2] = 255 + (colour[2] - 255) * strength;
      data[at + 3] = row === column ? 60 : 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

function groupFrames(context, players, left, top, cell) {
  let start = 0;
  return context.decision.groups.map((members) => {
    const frame = svg("rect", { x: left + start * cell, y: top + start * cell, width: members.length * cell, height: members.length * cell, class: "group-frame" });
    start += members.length;
    return frame;
  });
}

function followPointer(context, { picture, players, left, top, cell, kind, value, said }) {
  const cellAt = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = picture.viewBox.baseVal.width / box.width;
    const column = Math.floor(((event.clientX - box.left) * scale - left) / cell);
    const row = Math.floor(((event.clientY - box.top) * scale - top) / cell);
    return row >= 0 && column >= 0 && row < players.length && column < players.length ? [players[row], players[column]] : null;
  };
  picture.addEventListener("pointermove", (event) => {
    const found = cellAt(event);
    if (!found) return;
    const [i, j] = found;
    context.hover(i === j ? [i] : [i, j]);
    said.textContent = i === j ? context.label(i) : sentence(context, kind, i, j, value(i, j));
  });
  picture.addEventListener("click", (event) => {
    const found = cellAt(event);
    if (found) context.select(found[0]);
  });
}

function sentence(context, kind, i, j, value) {
  const [a, b] = [context.label(i), context.label(j)];
  const error = context.graph.error?.[j * context.graph.n + i];
  if (kind === "E2") return `E2: ${a} is worth ${format(value)}${error ? ` ± ${format(error)}` : ""} once ${b} is present.`;
  if (kind === "C") return `C: ${a} and ${b} ${value < 0 ? "replace" : "need"} each other by ${format(Math.abs(value))}.`;
  return `H: once ${a} is present, ${b} ${["is not redundant", "is redundant", "may or may not be redundant: the estimate is too noisy"][context.decision.redundant[i * context.graph.n + j]]}.`;
}

function choice(store, kind, hasPairs) {
  const buttons = Object.entries(MATRICES).filter(([name]) => name !== "C" || hasPairs).map(([name, { title, words }]) =>
    el("button", { type: "button", "aria-pressed": String(name === kind), title: words, click: () => store.set({ matrix: name }) }, title));
  return el("div", { class: "choice", role: "group", "aria-label": "Which matrix" }, buttons);
}
