// What is seen, as a file: SVG and PNG of the drawings, CSV of the numbers behind them.

import { svg } from "./dom.js";

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "image-rendering", "visibility"];

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

/** All drawings of a view in one SVG, side by side, with the styles of the page written into the elements. */
export function toSvg(view) {
  const pictures = [...view.querySelectorAll("svg")];
  if (!pictures.length) return null;
  const paper = getComputedStyle(view).backgroundColor;
  let x = 0;
  let height = 0;
  const copies = pictures.map((picture) => {
    const copy = styledCopy(picture);
    const box = picture.viewBox.baseVal;
    copy.setAttribute("x", x);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    x += box.width + 24;
    height = Math.max(height, box.height);
    return copy;
  });
  const width = x - 24;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, svg("rect", { width, height, fill: paper }), ...copies);
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
