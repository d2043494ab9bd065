// Dialogs: what is about to happen, and a button that says it. A refusal is shown inside, and the dialog stays open.

import { button, element, named } from "./dom.js";
import { plain } from "./format.js";

let count = 0;

/**
 * Ask before something is done.
 *
 * `run` gets the values of the fields, a signal that says stop, and a function that shows progress. It returns the text
 * that is said at the end. `isLong` is for what is done in parts, and may be stopped between them. Without `fields` the
 * button to cancel has the focus, so that Enter does no harm.
 */
export function ask({ title, says = [], fields = [], verb, isHarmless = false, isLong = false, run }, app) {
  count += 1;
  const heading = `dialog-${count}`;
  const stop = new AbortController();
  const trouble = element("p", { class: "trouble", role: "alert", hidden: true });
  const progress = element("p", { class: "progress", role: "status" });
  const cancel = button("Cancel", () => box.close(), { autofocus: fields.length === 0 });
  const act = element("button", { type: "submit", class: isHarmless ? "main" : "danger" }, verb);
  const form = element("form", { method: "dialog", submit: send },
    element("h2", { id: heading }, title), says.filter((line) => line !== null).map((line) => element("p", {}, line)),
    fields.map((field) => field.element), trouble, progress,
    element("div", { class: "buttons" }, cancel, act));
  const box = element("dialog", { "aria-labelledby": heading, close: closed }, form);

  function closed() {
    stop.abort();
    box.remove();
    if (document.activeElement === document.body) {
      // What opened it is gone.
      document.querySelector("#page h1")?.focus();
    }
  }

  async function send(event) {
    event.preventDefault();
    act.disabled = true;
    trouble.hidden = true;
    cancel.textContent = isLong ? "Stop" : "Close";
    try {
      const values = Object.fromEntries(fields.map((field) => [field.name, field.read()]));
      const said = await run(values, stop.signal, (text) => { progress.textContent = plain(text); });
      box.close();
      app.say(said);
      app.refresh();
    } catch (error) {
      trouble.textContent = plain(error.message);
      trouble.hidden = false;
      act.disabled = false;
      cancel.textContent = "Cancel";
    }
  }

  document.body.append(box);
  box.showModal();
}

/** Return a field for a text. */
export function textField(name, label, { isRequired = false, hint = null, initial = "" } = {}) {
  const input = element("input", { type: "text", name, value: initial, required: isRequired, autocomplete: "off",
    spellcheck: "false" });
  return { name, element: labelled(label, input, hint), read: () => input.value };
}

/** Return a field for a text of several lines. */
export function areaField(name, label) {
  const area = element("textarea", { name, rows: "6", spellcheck: "false" });
  return { name, element: labelled(label, area, null), read: () => area.value };
}

/** Return a field for a whole number from 1. */
export function numberField(name, label, { initial, most }) {
  const input = element("input", { type: "number", name, value: initial, min: "1", max: most, step: "1",
    required: true });
  return { name, element: labelled(label, input, null), read: () => input.valueAsNumber };
}

export function choiceField(name, label, choices, hint = null) {
  const select = element("select", { name }, choices.map((choice) => element("option", { value: choice }, choice)));
  return { name, element: labelled(label, select, hint), read: () => select.value };
}

export function flagField(name, label, initial) {
  const input = element("input", { type: "checkbox", name, checked: initial });
  return { name, element: element("label", { class: "flag" }, input, " ", label), read: () => input.checked };
}

function labelled(label, input, hint) {
  return element("label", { class: "field" }, element("span", {}, label), input,
    hint === null ? null : element("small", {}, hint));
}

/** Return a sentence with a name in it. */
export function sentence(before, name, after) {
  return [before, named(name), after];
}
