// What is seen, as a file: SVG and PNG of the drawings, CSV of the numbers behind them.

import { svg } from "./dom.js";

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "image-rendering", "visibility"];

const FONT = "system-ui, 'Segoe UI', Roboto, Arial, sans-serif";
const [GAP, LEAST_WIDTH] = [24, 420];

/** Offers bytes as a download. */
function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Rows as CSV. Texts that a spreadsheet would take for a formula get an apostrophe in front. */
export function toCsv(rows) {
  const cell = (value) => {
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

export function exportCsv(name, rows) {
  download(`${name}.csv`, new Blob([toCsv(rows)], { type: "text/csv;charset=utf-8" }));
}

/** All drawings of a view in one SVG, side by side below its title and legend, with the styles of the page written in. */
export function toSvg(view) {
  const pictures = [...view.querySelectorAll("svg")];
  if (!pictures.length) return null;
  const { backgroundColor: paper, color: ink } = getComputedStyle(view);
  const boxes = pictures.map((picture) => picture.viewBox.baseVal);
  const width = Math.max(LEAST_WIDTH, boxes.reduce((total, box) => total + box.width + GAP, 0) - GAP);
  const parts = [svg("rect", { width: "100%", height: "100%", fill: paper })];
  const write = (text, x, y, size, weight = 400) => parts.push(svg("text", { x, y, fill: ink, "font-size": size, "font-weight": weight, "font-family": FONT }, text));
  write(view.querySelector("h2")?.textContent ?? "", 8, 24, 18, 700);
  let top = legendOf(view, width, 46, { ink, parts, write });
  const heads = pictures.map((picture) => picture.closest("figure")?.querySelector("h3, h4")?.textContent ?? "");
  if (heads.some(Boolean)) top += 20;
  let x = 0;
  pictures.forEach((picture, k) => {
    const copy = styledCopy(picture);
    for (const [name, value] of Object.entries({ x, y: top, width: boxes[k].width, height: boxes[k].height })) copy.setAttribute(name, String(value));
    if (heads[k]) write(heads[k], x + 8, top - 6, 14, 700);
    parts.push(copy);
    x += boxes[k].width + GAP;
  });
  const height = top + Math.max(...boxes.map((box) => box.height)) + 8;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, ...parts);
}

/** The entries of a view's legend with their signs, in lines. Returns where the drawings may start. */
function legendOf(view, width, top, { ink, parts, write }) {
  let [x, y] = [8, top];
  const entries = [...view.querySelectorAll(".legend > span")];
  for (const entry of entries) {
    const wide = 30 + 7 * entry.textContent.length;
    if (x > 8 && x + wide > width) [x, y] = [8, y + 20];
    const sign = getComputedStyle(entry.querySelector("i"));
    const isRound = sign.borderRadius === "50%";
    if (isRound || parseFloat(sign.height) > 4) {
      const stroke = parseFloat(sign.borderTopWidth) ? sign.borderTopColor : "none";
      parts.push(svg("rect", { x, y: y - 10, width: 10, height: 10, rx: isRound ? 5 : 2, fill: sign.backgroundColor, stroke, "stroke-width": 2 }));
    } else {
      const dash = sign.borderTopStyle === "dashed" ? "5 3" : "none";
      parts.push(svg("line", { x1: x, x2: x + 16, y1: y - 5, y2: y - 5, stroke: sign.borderTopColor || ink, "stroke-width": parseFloat(sign.borderTopWidth), "stroke-dasharray": dash }));
    }
    write(entry.textContent, x + 22, y, 13);
    x += wide;
  }
  return entries.length ? y + 12 : top - 12;
}

function styledCopy(picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, k) => {
    const computed = getComputedStyle(originals[k]);
    for (const name of STYLES) node.style.setProperty(name, computed.getPropertyValue(name));
    for (const name of ["class", "tabindex", "data-player", "data-players"]) node.removeAttribute(name);
  });
  return copy;
}

export function exportSvg(name, view) {
  const picture = toSvg(view);
  if (picture) download(`${name}.svg`, new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
}

/** The same as PNG, at twice the size. */
export async function exportPng(name, view) {
  const picture = toSvg(view);
  if (!picture) return;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * Number(picture.getAttribute("width"));
  canvas.height = 2 * Number(picture.getAttribute("height"));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  download(`${name}.png`, await new Promise((resolve) => canvas.toBlob(resolve, "image/png")));
}
