// What `accessibility.py` asks a page. The functions run inside the page.

/** References that lead nowhere, drawings without a name, and a focus order that differs from the page's order. */
function visibleFaults() {
  const shown = (node) => node.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true });
  const of = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const found = [];
  for (const svg of of("svg")) {
    if (!svg.closest("[aria-hidden=true]") && !(svg.getAttribute("role") && svg.getAttribute("aria-label"))) found.push("a drawing without role and name");
  }
  for (const image of of("img:not([alt])")) found.push(`an image without alternative text: ${image.src.slice(0, 40)}`);
  for (const node of of("[tabindex]")) {
    if (node.tabIndex > 0) found.push(`tabindex ${node.tabIndex} of ${node.outerHTML.slice(0, 80)}`);
    if (node.tabIndex === 0 && !node.getAttribute("role") && node.closest("svg")) found.push(`focus without a role: ${node.outerHTML.slice(0, 80)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids.filter((id, k) => ids.indexOf(id) !== k))) found.push(`the id ${id} stands twice`);
  for (const node of of("[aria-controls], [aria-labelledby], [aria-describedby]")) {
    for (const name of ["aria-controls", "aria-labelledby", "aria-describedby"]) {
      for (const id of (node.getAttribute(name) ?? "").split(" ")) if (id && !document.getElementById(id)) found.push(`${name} of ${id}, which is not there`);
    }
  }
  return found;
}

/** Level and text of every visible heading. */
function headings() {
  return [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((node) => node.checkVisibility({ contentVisibilityAuto: true }))
    .map((node) => [Number(node.tagName[1]), node.textContent.trim()]);
}

/** Visible texts with less contrast than the least for their size, the lowest ratio, and how many texts there are. */
function faintTexts([least, large]) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [a * r + (1 - a) * x, a * g + (1 - a) * y, a * b + (1 - a) * z, 1];
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const groundOf = (node) => {
    const chain = [];
    for (let at = node; at; at = at.parentElement) chain.unshift(at);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return chain.reduce((ground, at) => over(rgba(getComputedStyle(at).backgroundColor), ground), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
  };
  const opacityOf = (node) => {
    let found = 1;
    for (let at = node; at; at = at.parentElement) found *= Number(getComputedStyle(at).opacity);
    return found;
  };
  const shapesBelow = (text, ground) => {
    const box = text.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    for (const shape of text.ownerSVGElement.querySelectorAll("rect, circle, polygon")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const at = shape.getBoundingClientRect();
      if (x < at.left || x > at.right || y < at.top || y > at.bottom) continue;
      const style = getComputedStyle(shape);
      if (style.fill === "none" || style.visibility === "hidden") continue;
      const [r, g, b, a] = rgba(style.fill);
      ground = over([r, g, b, a * Number(style.fillOpacity) * opacityOf(shape)], ground);
    }
    return ground;
  };
  const faint = [];
  let lowest = 99;
  let n = 0;
  const check = (node, colour, ground, style, text = node.textContent) => {
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const [r, g, b, a] = rgba(colour);
    const found = ratio(over([r, g, b, a * opacityOf(node)], ground), ground);
    n += 1;
    lowest = Math.min(lowest, found);
    if (found < (isLarge ? large : least) - 0.005) faint.push(`${found.toFixed(2)} ${text.trim().slice(0, 40)} (${colour}, ${node.getAttribute("class")})`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(node) || node.closest("title, script, style, noscript, option, datalist, [aria-disabled=true]")) continue;
    seen.add(node);
    if (!node.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(node);
    const box = node.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1) continue;
    if (!node.closest("svg")) check(node, style.color, groundOf(node), style);
    else if (style.paintOrder.startsWith("stroke") && style.stroke !== "none") check(node, style.fill, rgba(style.stroke), style);
    else check(node, style.fill, shapesBelow(node, groundOf(node.ownerSVGElement)), style);
  }
  for (const node of document.querySelectorAll("input[placeholder]")) {
    if (node.checkVisibility()) check(node, getComputedStyle(node, "::placeholder").color, groundOf(node), getComputedStyle(node), node.placeholder);
  }
  return { faint: [...new Set(faint)], lowest, n };
}

/** Where the keyboard's focus is. */
function focused() {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  return {
    said: node.getAttribute("aria-label") ?? node.textContent.trim().slice(0, 60),
    isSeen: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2),
    isOnScreen: box.bottom > 0 && box.top < innerHeight,
    place: [...document.querySelectorAll("*")].indexOf(node),
  };
}
