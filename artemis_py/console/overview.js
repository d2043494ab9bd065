// The broker in numbers.

import { path } from "./api.js";
import { element, facts, fill, named } from "./dom.js";
import { duration, octets, percent, rate, whole } from "./format.js";
import { QUEUE_COLUMNS } from "./queues.js";
import { place } from "./routes.js";
import { latest, sparkline } from "./samples.js";
import { ListTable } from "./table.js";

// Where the default of broker.xml (max-disk-usage) holds senders back.
const FULL_DISK = 0.9;

const TOP_COLUMNS = QUEUE_COLUMNS.slice(0, 8);

/** Return a number with its name, a line of its history, and a note. */
export function tile(title, text, series = null, show = whole, note = null) {
  return element("div", { class: "tile" }, element("dt", {}, title), element("dd", { class: "big" }, text),
    element("dd", {}, series === null ? null : sparkline(series, title, show), note));
}

export function overviewPage(app) {
  const tiles = element("dl", { class: "tiles" });
  const warnings = element("ul", { class: "warnings" });
  const about = element("div");
  const deepest = new ListTable(app, { kind: "queues", noun: "queue", key: "id", columns: TOP_COLUMNS,
    sort: "messageCount", order: "desc", rows: 10, isTop: true, empty: "All queues are empty.",
    unsearched: { field: "messageCount", operation: "GREATER_THAN", value: "0" } });

  async function load(signal) {
    const [broker] = await Promise.all([app.sample(signal), deepest.load(signal)]);
    const { samples } = app;
    const into = samples.rates("totalMessagesAdded");
    const out = samples.rates("totalMessagesAcknowledged");
    tiles.replaceChildren(
      tile("Messages", whole(broker.totalMessageCount), samples.levels("totalMessageCount")),
      tile("In per second", rate(latest(into)), into, rate),
      tile("Out per second", rate(latest(out)), out, rate),
      tile("Memory of messages", octets(broker.addressMemoryUsage), samples.levels("addressMemoryUsage"), octets),
      tile("Disk", ...disk(broker.diskStoreUsage)),
      tile("Connections", whole(broker.connectionCount), samples.levels("connectionCount")),
      tile("Consumers", whole(broker.totalConsumerCount), samples.levels("totalConsumerCount")),
      tile("Queues", whole(broker.queueCount), samples.levels("queueCount")),
      tile("Addresses", whole(broker.addressCount), samples.levels("addressCount")));
    fill(warnings, warned(broker), () => warned(broker).map((text) => element("li", {}, text)));
    fill(about, broker, () => described(broker));
  }

  return {
    title: "Overview",
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Overview"), warnings, tiles,
      element("h2", {}, "Queues with most messages"), deepest.element,
      element("p", {}, element("a", { href: place("queues") }, "All queues")), element("h2", {}, "This broker"), about),
    where: () => path("broker"),
    load,
  };
}

function disk(usage) {
  if (usage < 0) {
    return ["none", null, whole, "Messages are in memory only."];
  }
  const meter = element("meter", { min: "0", max: "1", high: FULL_DISK, optimum: "0", value: usage,
    "aria-label": "Used part of the disk" });
  return [percent(usage), null, whole, meter];
}

function warned(broker) {
  const found = [];
  if (broker.diskStoreUsage >= FULL_DISK) {
    found.push(`Warning: the disk is ${percent(broker.diskStoreUsage)} full.`);
  }
  if (broker.strandedMessageCount > 0) {
    found.push(`Warning: ${whole(broker.strandedMessageCount)} messages wait here, although consumers at other brokers `
      + "have room for them.");
  }
  return found;
}

function described(broker) {
  return facts([
    ["Name", named(broker.name)],
    ["Version", named(broker.version)],
    ["Node id", named(broker.nodeID)],
    ["Started", `${duration(broker.uptimeMillis)} ago`],
    ["Messages put into queues since then", whole(broker.totalMessagesAdded)],
    ["Acknowledged", whole(broker.totalMessagesAcknowledged)],
    ["Discarded", whole(broker.totalMessagesDiscarded)],
    ["Sent to addresses, and routed", whole(broker.routedMessageCount)],
    ["Sent to addresses, and routed nowhere", whole(broker.unRoutedMessageCount)],
  ]);
}
