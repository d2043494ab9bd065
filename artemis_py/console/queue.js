// One queue: its numbers, its messages, its consumers, and what can be done to it.

import { path, perform, performInParts, read, remove } from "./api.js";
import { ask, sentence, textField } from "./dialog.js";
import { button, element, facts, fill, named, value } from "./dom.js";
import { counted, plain, rate, whole } from "./format.js";
import { CONSUMER_COLUMNS } from "./lists.js";
import { MessageBrowser } from "./messages.js";
import { tile } from "./overview.js";
import { addressLink, states } from "./queues.js";
import { allow, missingFor } from "./rights.js";
import { place } from "./routes.js";
import { latest as last, Samples } from "./samples.js";
import { sendButton } from "./sending.js";
import { ListTable } from "./table.js";

// Histories of the queues that were looked at last, each at most some ten KiB.
const KEPT_QUEUES = 20;
const histories = new Map();

function historyOf(name) {
  const found = histories.get(name) ?? new Samples();
  histories.delete(name);
  histories.set(name, found);
  if (histories.size > KEPT_QUEUES) {
    histories.delete(histories.keys().next().value);
  }
  return found;
}

export function queuePage(app, name) {
  const where = path("queues", name);
  const history = historyOf(name);
  const latest = { queue: null, missing: {} };
  const state = element("p", { class: "states" });
  const actions = element("div", { class: "actions" });
  const tiles = element("dl", { class: "tiles" });
  const attributes = element("div");
  const messages = new MessageBrowser(app, name, where);
  const consumers = new ListTable(app, { kind: "consumers", noun: "consumer", key: "id", prefix: "consumers.",
    columns: CONSUMER_COLUMNS.filter((column) => column.field !== "queue"), sort: "id",
    fixed: { field: "queue", value: name }, empty: "Nobody consumes from this queue." });
  const rest = element("div", { hidden: true }, state, actions, tiles,
    element("h2", {}, "Messages"), messages.element, element("h2", {}, "Consumers"), consumers.element,
    element("h2", {}, "Attributes"), attributes);

  async function load(signal) {
    const [queue, missing] = await Promise.all([read(where, signal), missingFor(`queue.${name}`, signal),
      consumers.load(signal), messages.follow(signal)]);
    history.add(performance.now(), queue);
    rest.hidden = false;
    Object.assign(latest, { queue, missing });
    messages.forbid(missing);
    fill(state, states(queue).map((each) => each.textContent), () => [
      "Address: ", addressLink(queue), ` (${queue.routingType}) `, states(queue)]);
    fill(actions, [queue.paused, queue.enabled, free(queue) === 0, missing], () => buttons(app, name, where, latest));
    tiles.replaceChildren(...numbers(queue, history));
    fill(attributes, queue, () => facts(Object.entries(queue).map(([term, found]) => [term, value(found)])));
  }

  return {
    title: `Queue ${name}`,
    element: element("section", {}, element("h1", { tabindex: "-1" }, "Queue ", named(name)), rest),
    where: () => where,
    load,
  };
}

function numbers(queue, history) {
  const into = history.rates("messagesAdded");
  const out = history.rates("messagesAcknowledged");
  return [
    tile("Messages", whole(queue.messageCount), history.levels("messageCount")),
    tile("With consumers", whole(queue.deliveringCount), history.levels("deliveringCount")),
    tile("Scheduled", whole(queue.scheduledCount)),
    tile("Consumers", whole(queue.consumerCount)),
    tile("In per second", rate(last(into)), into, rate),
    tile("Out per second", rate(last(out)), out, rate),
  ];
}

/** Return a button for an operation that needs no question, because its opposite takes its place. */
export function act(app, where, text, operation, said, key, missing) {
  const made = button(text, async () => {
    try {
      await perform(where, operation);
      app.say(said);
    } catch (error) {
      app.say(error.message);
    }
    app.refresh();
  }, { "data-key": key });
  return allow(made, missing, operation);
}

/** Return how many messages are not with a consumer. */
function free(queue) {
  return Math.max(0, queue.messageCount - queue.deliveringCount);
}

// The numbers in a dialog are those of the moment at which it opens: `latest` has the queue as it was read last.
function buttons(app, name, where, latest) {
  const { queue, missing } = latest;
  const hasSome = free(queue) !== 0;
  return [
    queue.paused ? act(app, where, "Resume", "resume", "Deliveries are resumed.", "pause", missing)
      : act(app, where, "Pause", "pause", "Deliveries are paused; messages still arrive.", "pause", missing),
    queue.enabled ? act(app, where, "Disable", "disable", "The queue takes no new messages.", "enable", missing)
      : act(app, where, "Enable", "enable", "The queue takes new messages again.", "enable", missing),
    sendButton(app, "queue", name, where, missing),
    allow(button("Move all…", () => moveAll(app, name, where, free(latest.queue))), missing, "moveMessages", hasSome),
    allow(button("Retry all…", () => retryAll(app, name, where, free(latest.queue))),
      missing, "retryMessages", hasSome),
    allow(button("Purge…", () => purge(app, name, where, latest.queue), { class: "danger" }),
      missing, "purge", hasSome),
    allow(button("Delete…", () => deleteQueue(app, name, where, latest.queue), { class: "danger" }),
      missing, "destroyQueue"),
  ];
}

function purge(app, name, where, queue) {
  const messages = counted(free(queue), "message");
  const held = queue.deliveringCount;
  ask({
    title: "Purge a queue",
    says: [
      sentence(`This removes ${messages} of queue `, name, " for good. They do not become dead letters."),
      held > 0 ? `With consumers, and left alone: ${counted(held, "message")}.` : null,
    ],
    verb: `Purge ${messages}`,
    run: async () => `Purged ${counted(await perform(where, "purge"), "message")} of ${plain(name)}.`,
  }, app);
}

function moveAll(app, name, where, count) {
  ask({
    title: "Move all messages",
    says: [sentence(`This moves ${counted(count, "message")} of queue `, name, " to the end of another queue.")],
    fields: [textField("queue", "To queue", { isRequired: true })],
    verb: `Move ${counted(count, "message")}`,
    isLong: true,
    run: ({ queue }, signal, show) => inParts(where, "moveMessages", { queue }, "Moved", signal, show),
  }, app);
}

function retryAll(app, name, where, count) {
  ask({
    title: "Retry all messages",
    says: [
      sentence(`This sends ${counted(count, "message")} of queue `, name, " back to the queues they came from."),
      "Messages that came from no other queue stay.",
    ],
    verb: `Retry ${counted(count, "message")}`,
    isLong: true,
    run: (values, signal, show) => inParts(where, "retryMessages", {}, "Sent back", signal, show),
  }, app);
}

async function inParts(where, operation, wanted, verb, signal, show) {
  const { treated, leftAlone, isComplete } = await performInParts(where, operation, wanted, signal,
    (count) => show(`${verb} ${counted(count, "message")} so far.`));
  const stayed = leftAlone > 0 ? ` ${counted(leftAlone, "message")} could not go there, and stayed.` : "";
  return `${verb} ${counted(treated, "message")}.${stayed}${isComplete ? "" : " Stopped before the end."}`;
}

function deleteQueue(app, name, where, queue) {
  const hasConsumers = queue.consumerCount > 0;
  ask({
    title: "Delete a queue",
    says: [
      sentence("This deletes queue ", name, ` and ${counted(queue.messageCount, "message")} in it, for good.`),
      hasConsumers ? `${counted(queue.consumerCount, "consumer")} will be detached.` : null,
    ],
    verb: queue.messageCount > 0 ? `Delete queue and ${counted(queue.messageCount, "message")}` : "Delete queue",
    run: async () => {
      await remove(where, hasConsumers);
      app.go(place("queues"));
      return `Deleted queue ${plain(name)}.`;
    },
  }, app);
}
