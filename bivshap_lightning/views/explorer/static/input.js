// The input itself: the picture with its parts, the sentence with its words, the row with its columns.

import { closest, count, el, format, svg } from "./dom.js";
import { shortName, shorten, shortenAll, withoutSharedStart } from "./names.js";

/** What a part is to the selected one; colours of Okabe and Ito. */
const RELATIONS = {
  given: { colour: [0, 158, 115], words: "it makes redundant" },
  giver: { colour: [230, 159, 0], words: "makes it redundant" },
  mutual: { colour: [204, 121, 167], words: "each makes the other redundant" },
};
const POSITIVE = [213, 94, 0];
const NEGATIVE = [0, 114, 178];
const LONGEST_SIDE = 460;
const MAX_LABELS = 12;
const [WIDEST, LINE] = [9.3, 14]; // mean width of a character of a chip, and height of a label, in pixels

/** @param {import("./index.js").Context} context */
export function drawInput(context) {
  const { graph, selected } = context;
  const relation = relationsOf(context);
  const picture = graph.picture ?? gridOf(graph.names);
  const drawn = picture ? drawPicture(context, picture, relation) : drawChips(context, relation);
  /** @type {import("./index.js").Row[]} */
  const rows = [["part", "shapley", "role", "relation_to_selected"]];
  for (let i = 0; i < graph.n; i += 1) rows.push([context.label(i), graph.axis?.shapley[i] ?? "", context.decision.roles?.[i] ?? "", relation[i] ?? ""]);
  return { node: el("div", {}, legend(context, relation), drawn, el("p", { class: "note" }, caption(context, relation, selected))), rows };
}

/** For every part, what it is to the selected one; null if nothing. */
function relationsOf({ graph, decision, selected }) {
  return Array.from({ length: graph.n }, (_, other) => {
    if (selected < 0 || other === selected) return null;
    const makes = decision.redundant[selected * graph.n + other] === 1;
    const isMade = decision.redundant[other * graph.n + selected] === 1;
    if (makes && isMade) return "mutual";
    return makes ? "given" : isMade ? "giver" : null;
  });
}

function legend({ graph, selected }, relation) {
  const key = (colour) => el("i", { class: "key square", style: { background: `rgb(${colour.join(",")})` } });
  if (selected < 0 && graph.axis?.kind === "class") return el("p", { class: "legend" }, el("span", {}, key(POSITIVE), "important, mean over the samples"));
  if (selected < 0) {
    return el("p", { class: "legend" }, el("span", {}, key(POSITIVE), "speaks for the decision"), el("span", {}, key(NEGATIVE), "speaks against it"));
  }
  const found = Object.entries(RELATIONS).filter(([name]) => relation.includes(name));
  return el("p", { class: "legend" }, found.map(([, { colour, words }]) => el("span", {}, key(colour), words)));
}

function caption(context, relation, selected) {
  if (selected < 0) return "Colour: the Shapley value. Click a part to see what it makes redundant and what makes it so.";
  const n = (name) => relation.filter((found) => found === name).length;
  const name = context.label(selected);
  if (!relation.some(Boolean)) return `At γ = ${format(context.decision.gamma)}, ${name} makes no part redundant and no part makes it so. Click it again to let go, or move γ.`;
  return `Once ${name} is present, ${count(n("given") + n("mutual"), "part")} add at most γ. ${count(n("giver") + n("mutual"), "part")} make ${name} itself redundant. Click it again to let go.`;
}

function colourOf(context, relation, player) {
  if (context.selected >= 0) {
    if (player === context.selected) return { colour: [38, 50, 56], strength: 0.15 };
    return relation[player] ? { colour: RELATIONS[relation[player]].colour, strength: 0.7 } : { colour: [128, 128, 128], strength: 0.12 };
  }
  const { axis } = context.graph;
  if (!axis) return { colour: [128, 128, 128], strength: 0.1 };
  const share = axis.shapley[player] / context.largest;
  return { colour: share < 0 ? NEGATIVE : POSITIVE, strength: 0.85 * Math.min(1, Math.abs(share)) };
}

/** Names such as r3c4 are places on a grid, which is drawn as one. */
function gridOf(names) {
  const places = names.map((name) => /^r(\d{1,4})c(\d{1,4})$/.exec(name));
  if (names.length < 2 || places.some((place) => !place)) return null;
  const height = Math.max(...places.map((place) => Number(place[1]))) + 1;
  const width = Math.max(...places.map((place) => Number(place[2]))) + 1;
  if (height * width > 4 * names.length) return null;
  const segments = new Int32Array(height * width).fill(-1);
  places.forEach((place, player) => (segments[Number(place[1]) * width + Number(place[2])] = player));
  return { pixels: null, segments, height, width, channels: 1 };
}

function drawPicture(context, picture, relation) {
  const scale = Math.max(1, Math.floor(Math.min(LONGEST_SIDE, context.width - 20) / Math.max(picture.height, picture.width)));
  const [width, height] = [picture.width * scale, picture.height * scale];
  const plain = picture.pixels && context.width > 2 * width + 40 ? svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The picture itself" }, svg("image", { href: paint(context, picture, null, scale), x: 0, y: 0, width, height })) : null;
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "input-picture", role: "group", "aria-label": "The picture with its parts" });
  node.append(svg("image", { href: paint(context, picture, relation, scale), x: 0, y: 0, width, height }));
  const written = []; // labels that stand already, the most important parts first: one that would cover them is left out
  const short = shortenAll(withoutSharedStart(context.graph.names), 8);
  for (const [player, x, y] of labelPlaces(context, picture)) {
    const text = short[player];
    const half = 4 * text.length + 2;
    const place = { x: Math.max(half, Math.min(width - half, (x + 0.5) * scale)), y: (y + 0.5) * scale + 4, half };
    if (written.some((other) => Math.abs(other.x - place.x) < half + other.half && Math.abs(other.y - place.y) < LINE)) continue;
    written.push(place);
    node.append(svg("text", { x: place.x, y: place.y, "text-anchor": "middle", class: "part-label", ...context.mark(player, context.label(player)) }, text));
  }
  const outline = svg("path", { class: "outline" });
  node.append(outline);
  const show = (players) => outline.setAttribute("d", players.length ? borderPath(picture, new Set(players), scale) : "");
  context.onHover.push((players) => show(players.length ? players : context.selected >= 0 ? [context.selected] : []));
  const partAt = (event) => {
    const box = node.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * picture.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * picture.height);
    return picture.segments[y * picture.width + x] ?? -1;
  };
  node.addEventListener("pointermove", (event) => {
    const player = partAt(event);
    context.hover(player >= 0 ? [player] : []);
  });
  node.addEventListener("pointerleave", () => context.hover([]));
  node.addEventListener("click", (event) => {
    const player = partAt(event);
    if (player >= 0 && !closest(event, "[data-player]")) context.select(player);
  });
  return el("div", { class: "pictures" }, node, plain);
}

/** The picture as a data address: in grey below the colours of its parts, or as it is if there are no relations. */
function paint(context, picture, relation, scale) {
  const { height, width, pixels, channels, segments } = picture;
  const canvas = el("canvas", { width: width * scale, height: height * scale });
  const drawing = canvas.getContext("2d");
  const image = drawing.createImageData(width * scale, height * scale);
  const colours = Array.from({ length: context.graph.n }, (_, player) => relation ? colourOf(context, relation, player) : { colour: [0, 0, 0], strength: 0 });
  const grey = (at) => 40 + 0.75 * (channels === 3 ? 0.3 * pixels[3 * at] + 0.59 * pixels[3 * at + 1] + 0.11 * pixels[3 * at + 2] : pixels[at]);
  for (let y = 0; y < height * scale; y += 1) {
    const row = Math.floor(y / scale) * width;
    for (let x = 0; x < width * scale; x += 1) {
      const at = row + Math.floor(x / scale);
      const player = segments[at];
      const { colour, strength } = player < 0 ? { colour: [128, 128, 128], strength: 0 } : colours[player];
      const isBorder = relation && scale > 2 && ((x % scale === 0 && x > 0 && segments[at - 1] !== player) || (y % scale === 0 && y > 0 && segments[at - width] !== player));
      for (let channel = 0; channel < 3; channel += 1) {
        const below = !pixels ? 245 : relation ? grey(at) : pixels[at * channels + (channels === 3 ? channel : 0)];
        const value = below + (colour[channel] - below) * strength;
        image.data[4 * (y * width * scale + x) + channel] = isBorder ? value * 0.55 + 128 * 0.45 : value;
      }
      image.data[4 * (y * width * scale + x) + 3] = 255;
    }
  }
  drawing.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** The most important parts with the pixel of each that is nearest to its centre. */
function labelPlaces(context, { segments, height, width }) {
  const wanted = new Set(context.order.slice(0, MAX_LABELS));
  if (context.selected >= 0) wanted.add(context.selected);
  if (height * width === context.graph.n) return []; // single pixels leave no room
  const sums = new Map();
  segments.forEach((player, at) => {
    if (!wanted.has(player)) return;
    const sum = sums.get(player) ?? [0, 0, 0];
    sums.set(player, [sum[0] + (at % width), sum[1] + Math.floor(at / width), sum[2] + 1]);
  });
  const nearest = new Map(); // the centre of a bent part may lie in another one
  segments.forEach((player, at) => {
    const sum = sums.get(player);
    if (!sum) return;
    const far = Math.hypot((at % width) - sum[0] / sum[2], Math.floor(at / width) - sum[1] / sum[2]);
    if (far < (nearest.get(player)?.far ?? Infinity)) nearest.set(player, { far, at });
  });
  const rank = new Map(context.order.map((player, k) => [player, player === context.selected ? -1 : k]));
  return [...nearest].sort(([a], [b]) => rank.get(a) - rank.get(b)).map(([player, { at }]) => [player, at % width, Math.floor(at / width)]);
}

/** The edges between pixels of some parts and all others, as a path. */
function borderPath({ segments, height, width }, players, scale) {
  const parts = [];
  const inside = (x, y) => x >= 0 && y >= 0 && x < width && y < height && players.has(segments[y * width + x]);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      if (!inside(x, y)) continue;
      const [left, top] = [x * scale, y * scale];
      if (!inside(x - 1, y)) parts.push(`M${left} ${top}v${scale}`);
      if (!inside(x + 1, y)) parts.push(`M${left + scale} ${top}v${scale}`);
      if (!inside(x, y - 1)) parts.push(`M${left} ${top}h${scale}`);
      if (!inside(x, y + 1)) parts.push(`M${left} ${top + scale}h${scale}`);
    }
  }
  return parts.join("");
}

/** Words or columns in reading order, each in a box coloured like a part of a picture. */
function drawChips(context, relation) {
  const { graph } = context;
  const isText = graph.words !== null;
  const measure = el("canvas").getContext("2d");
  measure.font = "15px system-ui, sans-serif";
  const width = Math.min(context.width, 860);
  const node = svg("svg", { role: "group", "aria-label": isText ? "The text with its words" : "The row with its columns" });
  let [x, y] = [4, 4];
  for (let player = 0; player < graph.n; player += 1) {
    const most = Math.min(40, Math.floor((width - 44) / WIDEST));
    const text = isText ? shorten(graph.words[player], most) : shortName(graph, player, most);
    const wide = Math.min(measure.measureText(text).width + (isText ? 12 : 22), width - 8);
    if (x > 4 && x + wide > width - 4) [x, y] = [4, y + (isText ? 32 : 38)];
    const { colour, strength } = colourOf(context, relation, player);
    const value = graph.axis ? format(graph.axis.shapley[player]) : "unknown";
    const said = `${context.label(player)}: Shapley value ${value}${relation[player] ? `, ${RELATIONS[relation[player]].words}` : ""}`;
    node.append(svg("g", { class: "chip", ...context.mark(player, said) },
      svg("title", {}, said),
      svg("rect", { x, y, width: wide, height: 26, rx: 5, style: { fill: `rgba(${colour.join(",")},${(strength * 0.75).toFixed(3)})` }, class: isText ? "" : "column" }),
      svg("text", { x: x + wide / 2, y: y + 18, "text-anchor": "middle" }, text)));
    x += wide + (isText ? 3 : 8);
  }
  const height = y + 34;
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) node.setAttribute(name, String(value));
  return node;
}
