// Finds and makes elements of the page. Strings become text nodes, so a model's output is never interpreted as HTML.

/** The element with this id. */
export const get = (id) => document.getElementById(id);

/** Make an element with children and properties, which have the names of HTML attributes (`on...`: event handlers). */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A function that runs `act` once it has not been called again for `wait` milliseconds. */
export function debounce(act, wait) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
}

export const count = (number) => number.toLocaleString("en");

/** Format a probability as a percentage. */
export function percent(share) {
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.01) return "< 0.01 %";
  return `${value >= 99.995 && value < 100 ? "> 99.99" : value.toFixed(value < 10 ? 2 : 1)} %`;
}
