// Lists that are tables and little else: connections, consumers, diverts, exchanges, and members of the mesh.

import { path, remove } from "./api.js";
import { ask } from "./dialog.js";
import { button, element, link, named, when } from "./dom.js";
import { allow, missingFor } from "./rights.js";
import { place } from "./routes.js";
import { ListTable } from "./table.js";

const queueLink = (row) => link(place("queues", row.queue), row.queue);
const addressLink = (row) => link(place("addresses", row.address), row.address);

export const CONSUMER_COLUMNS = [
  { field: "id", title: "Consumer", isHead: true },
  { field: "queue", title: "Queue", cell: queueLink },
  { field: "user", title: "User" },
  { field: "clientID", title: "Client" },
  { field: "remoteAddress", title: "From" },
  { field: "credit", title: "Credit", isNumber: true },
  { field: "messagesInTransit", title: "Delivered", isNumber: true },
  { field: "messagesAcknowledged", title: "Acknowledged", isNumber: true },
  { field: "oldestInTransit", title: "Oldest delivered", isNumber: true },
  { field: "filter", title: "Filter" },
  { field: "browseOnly", title: "Browses" },
  { field: "priority", title: "Priority", isNumber: true },
  { field: "connectionID", title: "Connection", isNumber: true },
  { field: "connectionCreationTime", title: "Connected", cell: (row) => when(row.connectionCreationTime) },
];

const DIVERT_COLUMNS = [
  { field: "name", title: "Name", isHead: true },
  { field: "address", title: "From address", cell: addressLink },
  { field: "forwardingAddress", title: "To address" },
  { field: "exclusive", title: "Exclusive" },
  { field: "filter", title: "Filter" },
  { field: "routingType", title: "Routing type" },
  { field: "transformerClassName", title: "Transformer" },
  { field: "copies", title: "Copies", isNumber: true },
  { field: "failed", title: "Failed", isNumber: true },
  { field: "managed", title: "Made at run time" },
  { field: "lastTime", title: "Last copy", cell: (row) => when(row.lastTime) },
];

const EXCHANGE_COLUMNS = [
  { field: "name", title: "Name", isHead: true },
  { field: "type", title: "Type" },
  { field: "bindings", title: "Bindings", isNumber: true },
  { field: "routedMessages", title: "Routed", isNumber: true },
  { field: "unroutedMessages", title: "Not routed", isNumber: true },
  { field: "durable", title: "Durable" },
  { field: "lifetime", title: "Lifetime" },
  { field: "alternateQueue", title: "Alternate queue" },
  { field: "alternateExchange", title: "Alternate exchange" },
  { field: "unroutable", title: "Unroutable" },
  { field: "configurationManaged", title: "In broker.xml" },
];

const MEMBER_COLUMNS = [
  { field: "name", title: "Name", isHead: true },
  { field: "state", title: "State" },
  { field: "connectedSince", title: "Connected", cell: (row) => when(row.connectedSince) },
  { field: "claimed", title: "On their way", isNumber: true },
  { field: "waiting", title: "Waiting for it", isNumber: true },
  { field: "handedOver", title: "Handed over", isNumber: true },
  { field: "taken", title: "Taken", isNumber: true },
  { field: "resyncs", title: "Resyncs", isNumber: true },
  { field: "clockDifference", title: "Clock ahead by ms", isNumber: true },
  { field: "urls", title: "URLs" },
  { field: "nodeID", title: "Node id" },
];

export function connectionsPage(app) {
  let missing = {};
  const close = (row) => allow(button("Close…", () => closeConnection(app, row)), missing, "closeConnectionWithID");
  const page = listPage(app, "Connections", {
    kind: "connections", noun: "connection", key: "connectionID", sort: "connectionID",
    searched: [["clientID", "clients"], ["user", "users"], ["remoteAddress", "network addresses"],
      ["protocol", "protocols"]],
    // Requests of the console are connections too, for the moment that they take.
    unsearched: { field: "protocol", operation: "NOT_EQUALS", value: "HTTP" },
    columns: [
      { field: "connectionID", title: "Connection", isHead: true },
      { field: "clientID", title: "Client" },
      { field: "user", title: "User" },
      { field: "remoteAddress", title: "From" },
      { field: "protocol", title: "Protocol" },
      { field: "consumerCount", title: "Consumers", isNumber: true },
      { field: "creationTime", title: "Since", cell: (row) => when(row.creationTime) },
      { field: "close", title: "Action", isFixed: true, cell: close,
        value: (row) => [row.connectionID, missing.closeConnectionWithID] },
    ],
  });
  const load = async (signal) => {
    missing = await missingFor("broker", signal);
    await page.load(signal);
  };
  return { ...page, load };
}

function closeConnection(app, row) {
  const client = row.clientID || row.remoteAddress;
  ask({
    title: "Close a connection",
    says: [
      ["This closes connection ", String(row.connectionID), " of client ", named(client), "."],
      "What it was given and has not acknowledged goes back to the queues. The client may connect again.",
    ],
    verb: "Close 1 connection",
    run: async () => {
      await remove(path("connections", row.connectionID));
      return `Closed connection ${row.connectionID}.`;
    },
  }, app);
}

export function consumersPage(app) {
  return listPage(app, "Consumers", {
    kind: "consumers", noun: "consumer", key: "id", sort: "id", columns: CONSUMER_COLUMNS,
    searched: [["queue", "queues"], ["user", "users"], ["clientID", "clients"], ["remoteAddress", "network addresses"]],
  });
}

export function divertsPage(app) {
  return listPage(app, "Diverts", {
    kind: "diverts", noun: "divert", key: "name", sort: "name", columns: DIVERT_COLUMNS,
    searched: [["name", "names"], ["address", "addresses"], ["forwardingAddress", "forwarding addresses"]],
  });
}

export function exchangesPage(app) {
  return listPage(app, "Exchanges", {
    kind: "exchanges", noun: "exchange", key: "name", sort: "name", columns: EXCHANGE_COLUMNS,
    searched: [["name", "names"], ["type", "types"]],
  });
}

export function membersPage(app) {
  return listPage(app, "Mesh", {
    kind: "members", noun: "member", key: "nodeID", sort: "name", columns: MEMBER_COLUMNS,
    searched: [["name", "names"], ["state", "states"]], empty: "There is no other broker in the mesh.",
  });
}

function listPage(app, title, options) {
  const table = new ListTable(app, options);
  return {
    title,
    element: element("section", {}, element("h1", { tabindex: "-1" }, title), table.element),
    where: () => table.where(),
    load: (signal) => table.load(signal),
  };
}
