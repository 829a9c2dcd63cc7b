// The stored state of the page: the request, in the URL fragment, which browsers do not send to servers; and the theme.

const FIELDS = ["mode", "system", "prompt", "kind", "spec", "max_tokens", "temperature", "top_p", "seed", "more"];
const MAX_LENGTH = 64 * 1024;
const THEMES = ["system", "light", "dark"];

/** A URL fragment that contains these fields. */
export function toHash(fields) {
  const bytes = new TextEncoder().encode(JSON.stringify(fields));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return `#r=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The fields in a URL fragment: strings with known names. Null if `toHash` did not make the fragment. */
export function fromHash(hash) {
  if (!hash.startsWith("#r=") || hash.length > MAX_LENGTH) return null;
  try {
    const binary = atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const fields = JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0))));
    const names = FIELDS.filter((name) => typeof fields[name] === "string");
    return Object.fromEntries(names.map((name) => [name, fields[name]]));
  } catch {
    return null;
  }
}

/** Apply the selected theme, or the system's. A click on the button selects the next theme. */
export function followTheme(button) {
  let chosen = localStorage.getItem("guided-theme");
  if (!THEMES.includes(chosen)) chosen = "system";
  const show = () => {
    document.documentElement.dataset.theme = chosen;
    button.textContent = `Theme: ${chosen}`;
  };
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    localStorage.setItem("guided-theme", chosen);
    show();
  });
  show();
}
