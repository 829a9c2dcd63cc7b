// Elements of the page. Texts become text nodes, never HTML, so that what a model writes is only ever read.

/** The element with an id. */
export const get = (id) => document.getElementById(id);

/** An element with properties (`class`, `on...`, `data-...`, `aria-...` as HTML names them) and children. */
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

/** Run `act` once nothing has called for `wait` milliseconds. */
export function debounced(act, wait) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
}

export const count = (number) => number.toLocaleString("en");

/** A probability as a reader sees it. */
export function percent(share) {
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.01) return "< 0.01 %";
  return `${value >= 99.995 && value < 100 ? "> 99.99" : value.toFixed(value < 10 ? 2 : 1)} %`;
}
