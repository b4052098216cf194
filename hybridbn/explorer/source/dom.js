// Elements are made here only, and every text becomes a text node: names and states are never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else {
      const text = value === true ? "" : String(value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let canvas = null;
const widths = new Map();

/** The width of a text in pixels. */
export function measure(text, font) {
  const key = `${font}|${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    canvas ??= document.createElement("canvas").getContext("2d");
    canvas.font = `${font} system-ui, sans-serif`;
    width = canvas.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(key, width);
  }
  return width;
}

/** The text, with an ellipsis in its middle where it is wider than `room` pixels: numbered names differ at their ends. */
export function fit(text, room, font) {
  if (measure(text, font) <= room) return text;
  const cut = (count) => {
    const tail = Math.floor(count * 0.4);
    return `${text.slice(0, count - tail).trimEnd()}…${text.slice(text.length - tail).trimStart()}`;
  };
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(cut(middle), font) <= room) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

let lastNumber = 0;

/** An id that no other element has. */
export const makeId = (name) => `hbx-${name}-${(lastNumber += 1)}-${Math.random().toString(36).slice(2, 8)}`;
