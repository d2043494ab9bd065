// Tokens of programs that ask over HTTP. The secret of one is shown once, when it is made.

import { create, path, remove } from "./api.js";
import { ask, choiceField, numberField, textField } from "./dialog.js";
import { button, element, named, when } from "./dom.js";
import { plain } from "./format.js";
import { ListTable } from "./table.js";

const DEFAULT_DAYS = 90;
const MOST_DAYS = 366;

export function tokensPage(app) {
  const table = new ListTable(app, {
    kind: "tokens", noun: "token", key: "id", sort: "name",
    searched: [["name", "names"], ["owner", "owners"]],
    columns: [
      { field: "name", title: "Name", isHead: true },
      { field: "owner", title: "Owner" },
      { field: "scope", title: "Scope" },
      { field: "creationTime", title: "Made", cell: (row) => when(row.creationTime) },
      { field: "expirationTime", title: "Ends", cell: (row) => when(row.expirationTime) },
      { field: "expired", title: "Has ended" },
      { field: "lastUsedTime", title: "Last used", cell: (row) => when(row.lastUsedTime) },
      { field: "id", title: "Id" },
      { field: "revoke", title: "Action", isFixed: true, value: (row) => row.id,
        cell: (row) => button("Revoke…", () => revoke(app, row)) },
    ],
  });
  return {
    title: "Tokens",
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Tokens"),
      element("p", {}, "With a token, a program asks over HTTP as the user who made it."),
      element("div", { class: "actions" }, button("Create token", () => createToken(app))), table.element),
    where: () => table.where(),
    load: (signal) => table.load(signal),
  };
}

function createToken(app) {
  ask({
    title: "Create a token",
    fields: [
      textField("name", "Name", { isRequired: true, hint: "What it is for, such as prometheus" }),
      choiceField("scope", "Scope", ["all", "read", "metrics"],
        "all: what you may do. read: only what changes nothing. metrics: only /metrics."),
      numberField("days", "Days until it ends", { initial: DEFAULT_DAYS, most: MOST_DAYS }),
    ],
    verb: "Create token",
    isHarmless: true,
    run: async ({ name, scope, days }) => {
      const { result } = await create("tokens", { name, scope, days });
      show(app, result);
      return `Created token ${plain(name)}.`;
    },
  }, app);
}

function show(app, made) {
  const text = element("input", { type: "text", readonly: true, value: made.token, "aria-label": "Token" });
  const copy = async () => {
    text.select();
    try {
      await navigator.clipboard.writeText(made.token);
      app.say("Copied.");
    } catch {
      // Only pages that came over TLS or from this machine may write there.
      app.say("Selected: copy it with your keyboard.");
    }
  };
  const box = element("dialog", { "aria-labelledby": "token-title", close: () => box.remove() },
    element("h2", { id: "token-title" }, "Token ", named(made.name)),
    element("p", {}, "Copy it now: it cannot be shown again."),
    made.durable ? null : element("p", { class: "trouble" }, "The broker has no store, so it ends with the broker."),
    element("p", { class: "field" }, text),
    element("div", { class: "buttons" }, button("Copy", copy), button("Close", () => box.close(), { class: "main" })));
  document.body.append(box);
  box.showModal();
  text.focus();
  text.select();
}

function revoke(app, row) {
  ask({
    title: "Revoke a token",
    says: [
      ["This ends token ", named(row.name), " of ", named(row.owner), " for good."],
      "Programs that use it are refused.",
    ],
    verb: "Revoke 1 token",
    run: async () => {
      await remove(path("tokens", row.id));
      return `Revoked token ${plain(row.name)}.`;
    },
  }, app);
}
