// Connections to brokers that are no members of the mesh, and what passes over each of them.

import { path, read } from "./api.js";
import { badge, element, facts, fill, link, named, value, when } from "./dom.js";
import { whole } from "./format.js";
import { act } from "./queue.js";
import { missingFor } from "./rights.js";
import { place } from "./routes.js";

const KIND = "broker-connections";

// A connection may have 12,000 of them, and their numbers change all the time.
const MOST_ROWS = 200;

const COLUMNS = [
  ["Kind", (bridge) => bridge.kind],
  ["Queue", (bridge) => link(place("queues", bridge.queue), bridge.queue)],
  ["At the other broker", (bridge) => named(bridge.remoteAddress)],
  ["State", (bridge) => badge(bridge.state, bridge.state === "open" ? "plain" : "warn")],
  ["Passed", (bridge) => whole(bridge.messages), "number"],
  ["Not answered", (bridge) => whole(bridge.pending), "number"],
  ["Refused", (bridge) => whole(bridge.refused), "number"],
  ["Last reason", (bridge) => value(bridge.lastError)],
];

export function bridgesPage(app) {
  const shown = element("div");

  async function load(signal) {
    const { data } = await read(path(KIND), signal);
    const missing = await Promise.all(data.map(({ name }) => missingFor(`brokerconnection.${name}`, signal)));
    fill(shown, [data, missing], () => (data.length === 0
      ? element("p", {}, "There are none.")
      : data.map((connection, index) => one(app, connection, missing[index]))));
  }

  return {
    title: "Bridges",
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Bridges"),
      element("p", {}, "Connections that this broker makes to others, which are no members of its mesh."), shown),
    where: () => path(KIND),
    load,
  };
}

function one(app, connection, missing) {
  const { name } = connection;
  const where = path(KIND, name);
  const bridges = JSON.parse(connection.bridges);
  return element("section", { "aria-label": `Connection ${name}` },
    element("h2", {}, named(name)),
    element("div", { class: "actions" }, connection.open
      ? act(app, where, "Stop", "stop", "The connection is stopped.", `${name} open`, missing)
      : act(app, where, "Start", "start", "The connection is started.", `${name} open`, missing)),
    facts([
      ["State", badge(state(connection), connection.connected ? "plain" : "warn")],
      ["Connected since", when(connection.connectedSince)],
      ["Last reason", value(connection.lastError)],
      ["To", named(connection.uri)],
      ["As user", value(connection.user)],
      ["Sent", whole(connection.messagesForwarded)],
      ["Received", whole(connection.messagesReceived)],
    ]),
    bridges.length === 0 ? element("p", {}, "Messages of no queue go over it now.")
      : table(name, bridges.slice(0, MOST_ROWS)),
    bridges.length <= MOST_ROWS ? null
      : element("p", {}, `The first ${whole(MOST_ROWS)} of ${whole(bridges.length)} are shown; the API has all.`));
}

function state(connection) {
  return connection.open ? connection.state.replace("_", " ") : "stopped";
}

function table(name, bridges) {
  const label = `Senders and receivers of ${name}`;
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `Table of ${label}` },
    element("table", {}, element("caption", { class: "unseen" }, label),
      element("thead", {}, element("tr", {}, COLUMNS.map(([title, , kind]) =>
        element("th", { scope: "col", class: kind }, title)))),
      element("tbody", {}, bridges.map((bridge) => element("tr", {}, COLUMNS.map(([, cell, kind]) =>
        element("td", { class: kind }, cell(bridge))))))));
}
