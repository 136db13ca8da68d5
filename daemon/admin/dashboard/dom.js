// Elements. All text gets into the page as text: nothing here, or anywhere on this page, parses
// HTML, and the page's Content-Security-Policy would not let it (require-trusted-types-for).

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** An HTML element; children are nodes, or strings that become text. */
export const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets the text of an element, if it is another one: a live region says each change aloud. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows `text` in a banner or the like, or hides it when there is none. */
export function showText(element, text) {
  element.hidden = !text;
  setText(element, text || "");
}
