// Elements. What comes from the broker becomes text nodes here, and never markup.

import { moment, parts, whole } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** Return an element. An attribute that is a function listens to the event of its name; null leaves one out. */
export function element(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function drawing(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(made, attributes, children) {
  for (const [name, given] of Object.entries(attributes)) {
    if (typeof given === "function") {
      made.addEventListener(name, given);
    } else if (given === true) {
      made.setAttribute(name, "");
    } else if (given !== null && given !== undefined && given !== false) {
      made.setAttribute(name, given);
    }
  }
  made.append(...nodes(children));
  return made;
}

/** Return children as nodes: nested arrays are flat, null is left out, and text shows what cannot be seen. */
export function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined)
    .flatMap((child) => (child instanceof Node ? [child] : letters(String(child))));
}

function letters(text) {
  return parts(text).map(([part, isEscape]) => {
    if (!isEscape) {
      return document.createTextNode(part);
    }
    const escape = document.createElement("span");
    escape.className = "escape";
    escape.textContent = part;
    return escape;
  });
}

/** Return a text that somebody else chose. Its direction does not change what is around it. */
export function named(text) {
  return element("bdi", { class: "name" }, text === "" ? element("i", {}, "(empty)") : text);
}

export function link(target, text) {
  return element("a", { href: target }, named(text));
}

export function button(text, click, attributes = {}) {
  return element("button", { type: "button", click, ...attributes }, text);
}

export function badge(text, kind = "plain") {
  return element("span", { class: `badge ${kind}` }, text);
}

/** Return a time; its title has the exact one in UTC. */
export function when(milliseconds) {
  if (!milliseconds) {
    return none();
  }
  const exact = new Date(milliseconds).toISOString();
  return element("time", { datetime: exact, title: exact }, moment(milliseconds));
}

export function none() {
  return element("span", { class: "none" }, "–");
}

/** Return a value of JSON as something to read. */
export function value(found) {
  if (found === null || found === undefined || found === "") {
    return none();
  }
  if (typeof found === "boolean") {
    return found ? "yes" : "no";
  }
  if (typeof found === "number") {
    return whole(found);
  }
  return named(typeof found === "string" ? found : JSON.stringify(found));
}

/** Return pairs of a term and what belongs to it. */
export function facts(pairs) {
  return element("dl", { class: "facts" }, pairs.map(([term, found]) =>
    element("div", {}, element("dt", {}, term), element("dd", {}, found))));
}

/** Replace what an element contains, unless it already shows the same for `seen`. The focus stays where it was. */
export function fill(target, seen, make) {
  const signature = JSON.stringify(seen) ?? "";
  if (target.dataset.seen === signature) {
    return;
  }
  target.dataset.seen = signature;
  const focused = target.contains(document.activeElement) ? identity(document.activeElement) : null;
  target.replaceChildren(...nodes([make()]));
  if (focused !== null) {
    const same = [...target.querySelectorAll("a, button")].find((each) => identity(each) === focused);
    same?.focus({ preventScroll: true });
  }
}

function identity(control) {
  return control.dataset.key ?? control.textContent;
}
