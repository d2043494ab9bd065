// The list of queues, and the dialog that creates one.

import { create } from "./api.js";
import { badge, button, element, link } from "./dom.js";
import { choiceField, flagField, ask, textField } from "./dialog.js";
import { plain } from "./format.js";
import { allow, missingFor } from "./rights.js";
import { place } from "./routes.js";
import { ListTable } from "./table.js";

/** Return the states of a queue or address that are out of the ordinary, as words. */
export function states(row) {
  return [
    row.paused ? badge("Paused", "warn") : null,
    row.enabled === false ? badge("Disabled", "warn") : null,
    row.temporary ? badge("Temporary") : null,
    row.internal ? badge("Internal") : null,
    row.autoCreated ? badge("Auto-created") : null,
  ].filter((state) => state !== null);
}

export const STATES = {
  field: "paused", title: "State", cell: states,
  value: (row) => [row.paused, row.enabled, row.temporary, row.internal, row.autoCreated],
};

/** Return a link to the address, which mostly has the queue's name. Italics tell the word from such an address. */
export function addressLink(row) {
  const target = place("addresses", row.address);
  if (row.address === row.name) {
    return element("a", { href: target }, element("i", {}, "same"));
  }
  return link(target, row.address);
}

export const QUEUE_COLUMNS = [
  { field: "name", title: "Name", isHead: true, cell: (row) => link(place("queues", row.name), row.name) },
  { field: "messageCount", title: "Messages", isNumber: true },
  { field: "consumerCount", title: "Consumers", isNumber: true },
  STATES,
  { field: "deliveringCount", title: "Delivered", isNumber: true },
  { field: "scheduledCount", title: "Scheduled", isNumber: true },
  { field: "messagesAdded", title: "Added", isNumber: true },
  { field: "messagesAcked", title: "Acknowledged", isNumber: true },
  { field: "messagesExpired", title: "Expired", isNumber: true },
  { field: "messagesKilled", title: "Dead", isNumber: true },
  { field: "routingType", title: "Routing type" },
  { field: "address", title: "Address", cell: addressLink,
    value: (row) => [row.address, row.name] },
];

export function queuesPage(app) {
  const table = new ListTable(app, {
    kind: "queues", noun: "queue", key: "id", columns: QUEUE_COLUMNS, sort: "name", hasHidden: true,
    searched: [["name", "names"], ["address", "addresses"], ["filter", "filters"], ["user", "users"]],
  });
  const creation = button("Create queue", () => createQueue(app));
  return {
    title: "Queues",
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Queues"),
      element("div", { class: "actions" }, creation), table.element),
    where: () => table.where(),
    load: async (signal) => {
      const [missing] = await Promise.all([missingFor("broker", signal), table.load(signal)]);
      allow(creation, missing, "createQueue");
    },
  };
}

function createQueue(app) {
  ask({
    title: "Create a queue",
    fields: [
      textField("name", "Name", { isRequired: true }),
      textField("address", "Address", { hint: "Empty: the same as the name. It is created if it does not exist." }),
      choiceField("type", "Routing type", ["ANYCAST", "MULTICAST"]),
      textField("filter", "Filter", { hint: "A selector that messages must satisfy to get in, such as region = 'eu'" }),
      flagField("durable", "Durable: the queue and its durable messages survive a restart", true),
    ],
    verb: "Create queue",
    isHarmless: true,
    run: async ({ name, address, type, filter, durable }) => {
      const wanted = { name, durable, "routing-type": type };
      if (address !== "") {
        wanted.address = address;
      }
      if (filter !== "") {
        wanted["filter-string"] = filter;
      }
      await create("queues", wanted);
      app.go(place("queues", name));
      return `Created queue ${plain(name)}.`;
    },
  }, app);
}
