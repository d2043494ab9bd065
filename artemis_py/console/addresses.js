// The list of addresses, and one address.

import { create, path, perform, read, remove } from "./api.js";
import { ask, flagField, sentence, textField } from "./dialog.js";
import { button, element, facts, fill, link, named, value } from "./dom.js";
import { counted, octets, plain, whole } from "./format.js";
import { tile } from "./overview.js";
import { act } from "./queue.js";
import { QUEUE_COLUMNS, STATES, states } from "./queues.js";
import { allow, missingFor } from "./rights.js";
import { place } from "./routes.js";
import { sendButton } from "./sending.js";
import { ListTable } from "./table.js";

const ADDRESS_COLUMNS = [
  { field: "name", title: "Name", isHead: true, cell: (row) => link(place("addresses", row.name), row.name) },
  { field: "routingTypes", title: "Routing types", cell: (row) => row.routingTypes.join(", ") },
  { field: "queueCount", title: "Queues", isNumber: true },
  { field: "messageCount", title: "Messages", isNumber: true },
  { field: "addressSize", title: "Memory", isNumber: true, cell: (row) => octets(row.addressSize) },
  STATES,
  { field: "routedMessageCount", title: "Routed", isNumber: true },
  { field: "unRoutedMessageCount", title: "Not routed", isNumber: true },
];

export function addressesPage(app) {
  const table = new ListTable(app, {
    kind: "addresses", noun: "address", key: "name", columns: ADDRESS_COLUMNS, sort: "name", hasHidden: true,
    searched: [["name", "names"], ["routingTypes", "routing types"]],
  });
  const creation = button("Create address", () => createAddress(app));
  return {
    title: "Addresses",
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Addresses"),
      element("div", { class: "actions" }, creation), table.element),
    where: () => table.where(),
    load: async (signal) => {
      const [missing] = await Promise.all([missingFor("broker", signal), table.load(signal)]);
      allow(creation, missing, "createAddress");
    },
  };
}

function createAddress(app) {
  ask({
    title: "Create an address",
    fields: [
      textField("name", "Name", { isRequired: true }),
      flagField("ANYCAST", "ANYCAST: each message goes to one queue", true),
      flagField("MULTICAST", "MULTICAST: each message goes to all queues", false),
    ],
    verb: "Create address",
    isHarmless: true,
    run: async ({ name, ...types }) => {
      await create("addresses", { name, routingTypes: Object.keys(types).filter((type) => types[type]) });
      app.go(place("addresses", name));
      return `Created address ${plain(name)}.`;
    },
  }, app);
}

export function addressPage(app, name) {
  const where = path("addresses", name);
  const latest = { address: null, missing: {} };
  const state = element("p", { class: "states" });
  const actions = element("div", { class: "actions" });
  const tiles = element("dl", { class: "tiles" });
  const attributes = element("div");
  const queues = new ListTable(app, { kind: "queues", noun: "queue", key: "id", sort: "name", prefix: "queues.",
    columns: QUEUE_COLUMNS.filter((column) => column.field !== "address"), fixed: { field: "address", value: name },
    empty: "The address has no queues." });
  const rest = element("div", { hidden: true }, state, actions, tiles, element("h2", {}, "Queues"), queues.element,
    element("h2", {}, "Attributes"), attributes);

  async function load(signal) {
    const [address, missing] = await Promise.all([read(where, signal), missingFor(`address.${name}`, signal),
      queues.load(signal)]);
    rest.hidden = false;
    fill(state, [address.routingTypes, states(address).map((each) => each.textContent)],
      () => [`${address.routingTypes.join(", ")} `, states(address)]);
    Object.assign(latest, { address, missing });
    fill(actions, [address.paused, address.messageCount === 0, missing], () => buttons(app, name, where, latest));
    tiles.replaceChildren(
      tile("Messages", whole(address.messageCount)), tile("Queues", whole(address.queueCount)),
      tile("Memory", octets(address.addressSize)), tile("Routed", whole(address.routedMessageCount)),
      tile("Routed nowhere", whole(address.unRoutedMessageCount)));
    fill(attributes, address, () => facts(Object.entries(address).map(([term, found]) => [term, value(found)])));
  }

  return {
    title: `Address ${name}`,
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Address ", named(name)), rest),
    where: () => where,
    load,
  };
}

function buttons(app, name, where, latest) {
  const { address, missing } = latest;
  const paused = "Deliveries of all its queues are paused; messages still arrive.";
  return [
    address.paused ? act(app, where, "Resume", "resume", "Deliveries are resumed.", "pause", missing)
      : act(app, where, "Pause", "pause", paused, "pause", missing),
    sendButton(app, "address", name, where, missing),
    allow(button("Purge…", () => purge(app, name, where, latest.address), { class: "danger" }),
      missing, "purge", address.messageCount !== 0),
    allow(button("Delete…", () => deleteAddress(app, name, where, latest.address), { class: "danger" }),
      missing, "deleteAddress"),
  ];
}

function purge(app, name, where, address) {
  const messages = counted(address.messageCount, "message");
  ask({
    title: "Purge an address",
    says: [
      sentence(`This removes ${messages} of ${counted(address.queueCount, "queue")} of address `, name, " for good."),
      "Messages that are with consumers stay.",
    ],
    verb: `Purge ${messages}`,
    run: async () => `Purged ${counted(await perform(where, "purge"), "message")} of ${plain(name)}.`,
  }, app);
}

function deleteAddress(app, name, where, address) {
  const hasQueues = address.queueCount > 0;
  const queues = counted(address.queueCount, "queue");
  ask({
    title: "Delete an address",
    says: [
      sentence("This deletes address ", name, hasQueues
        ? `, ${queues} and ${counted(address.messageCount, "message")}, for good. Their consumers will be detached.`
        : ". It has no queues."),
    ],
    verb: hasQueues ? `Delete address and ${queues}` : "Delete address",
    run: async () => {
      await remove(where, hasQueues);
      app.go(place("addresses"));
      return `Deleted address ${plain(name)}.`;
    },
  }, app);
}
