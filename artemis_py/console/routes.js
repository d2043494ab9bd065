// Pages by their place behind the `#`: a path, and what is looked at there (`#/queues/orders?filter=a%3D1`).

/** Return the parts of the current place: names in its path, and its parameters. */
export function here() {
  const [path, query] = split(location.hash.replace(/^#/, ""));
  const names = path.split("/").filter((name) => name !== "").map(decoded);
  return { path, names, query: new URLSearchParams(query) };
}

function split(text) {
  const index = text.indexOf("?");
  return index < 0 ? [text, ""] : [text.slice(0, index), text.slice(index + 1)];
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

export function place(...names) {
  return `#/${names.map(encodeURIComponent).join("/")}`;
}

/** Return the current place with other parameters; an empty one is left out. */
export function changed(changes) {
  const { path, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") {
      query.delete(name);
    } else {
      query.set(name, value);
    }
  }
  const text = query.toString();
  return `#${path || "/"}${text ? `?${text}` : ""}`;
}
