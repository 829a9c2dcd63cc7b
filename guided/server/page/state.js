// What the page remembers: the request, in the address (its hash, which is sent to no server), and the theme.

const FIELDS = ["mode", "system", "prompt", "kind", "spec", "max_tokens", "temperature", "top_p", "seed", "more"];
const LONGEST = 64 * 1024;
const THEMES = ["system", "light", "dark"];

/** The hash for some fields. */
export function toHash(fields) {
  const bytes = new TextEncoder().encode(JSON.stringify(fields));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return `#r=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The fields of a hash: texts alone, by names that are known; null where it is none of ours. */
export function fromHash(hash) {
  if (!hash.startsWith("#r=") || hash.length > LONGEST) return null;
  try {
    const binary = atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const found = JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (each) => each.charCodeAt(0))));
    const names = FIELDS.filter((name) => typeof found[name] === "string");
    return Object.fromEntries(names.map((name) => [name, found[name]]));
  } catch {
    return null;
  }
}

/** Follow the system's theme or the one that was chosen; a click on the button takes the next. */
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
