// The messages of one queue: looked at without taking them, chosen, and treated.

import { asking, below, perform, performInParts, read, Refused } from "./api.js";
import { ask, sentence, textField } from "./dialog.js";
import { badge, button, element, facts, value, when } from "./dom.js";
import { clock, counted, octets, plain, whole } from "./format.js";
import { allow } from "./rights.js";
import { changed, here } from "./routes.js";

const PAGE_MESSAGES = 50;

const DUMPED_BYTES = 4096;
const DUMPED_ROW = 16;
const SUMMARY_LETTERS = 60;

const MOVED = " will go to the end of another queue.";
const REMOVED = " will be lost for good, without becoming dead letters.";

// What may be done to messages that are chosen: the operation, the verb, the same verb in the past, what will happen.
const TREATMENTS = [
  ["moveMessage", "Move", "Moved", MOVED],
  ["retryMessage", "Retry", "Sent back", " will be sent back to the queue of origin, or stay if there is none."],
  ["expireMessage", "Expire", "Expired", " will go to the expiry address, or be lost if there is none."],
  ["removeMessage", "Remove", "Removed", REMOVED],
];
const HARMLESS = new Set(["moveMessage", "retryMessage"]);

export class MessageBrowser {
  constructor(app, name, where) {
    Object.assign(this, { app, name, where });
    this.chosen = new Set();
    this.boxes = new Map();
    this.missing = {};
    this.read = null;
    this.selector = element("input", { type: "text", spellcheck: "false", autocomplete: "off",
      placeholder: "region = 'eu' AND amount > 100" });
    this.count = element("p", { class: "count" });
    this.trouble = element("p", { class: "trouble", role: "alert", hidden: true });
    this.body = element("tbody");
    this.pager = element("nav", { class: "pager", "aria-label": "Pages of messages" });
    this.actions = element("div", { class: "actions" });
    this.all = element("input", { type: "checkbox", "aria-label": "Select all messages shown",
      change: () => this.chooseAll(this.all.checked) });
    const titles = ["Number", "Sent", "Size", "Priority", "Attempts", "State", "Properties", "Body"];
    this.table = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Table of messages" },
      element("table", {}, element("caption", { class: "unseen" }, "messages"),
        element("thead", {}, element("tr", {}, element("td", {}, this.all),
          titles.map((title) => element("th", { scope: "col" }, title)))), this.body));
    this.element = element("div", { class: "list", id: "messages" },
      element("form", { class: "searching", submit: (event) => this.submitted(event) },
        element("label", { class: "search" }, "Selector ", this.selector),
        element("button", { type: "submit" }, "Show"), button("Read again", () => this.again())),
      this.trouble, this.count, this.actions, this.table, this.pager);
  }

  submitted(event) {
    event.preventDefault();
    this.read = null;
    this.app.go(changed({ filter: this.selector.value, from: null }));
  }

  again() {
    this.read = null;
    this.app.refresh();
  }

  /** Read messages if the place asks for others than those shown: rows must not move under the pointer. */
  async follow(signal) {
    const { query } = here();
    const wanted = { filter: query.get("filter") ?? "", from: query.get("from") ?? "" };
    const text = JSON.stringify(wanted);
    if (this.read === text) {
      return;
    }
    this.selector.value = wanted.filter;
    try {
      const where = asking(below(this.where, "messages"), { ...wanted, messageCount: PAGE_MESSAGES });
      this.show(await read(where, signal), wanted);
      this.read = text;
      this.trouble.hidden = true;
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      // A selector that is wrong is no fault of the page around it.
      this.read = text;
      this.show({ messages: [], count: 0, examined: 0, next: null }, wanted);
      this.count.textContent = "";
      this.trouble.textContent = plain(error.message);
      this.trouble.hidden = false;
    }
  }

  show({ messages, count, examined, next }, { filter, from }) {
    this.filter = filter;
    this.chosen.clear();
    this.boxes.clear();
    this.all.checked = false;
    this.body.replaceChildren(...messages.map((message) => this.row(message)));
    this.table.hidden = messages.length === 0;
    const match = filter === "" ? "" : ` of ${whole(examined)} that were examined`;
    const none = filter === "" ? "No messages wait here" : `None${match} matches`;
    const found = count === 0 ? none : `${counted(count, "message")}${match}`;
    const more = next === null ? "." : "; there may be more on the next page.";
    this.count.textContent = `${found}, as of ${clock(Date.now())}${more}`;
    this.pager.replaceChildren(
      ...(from === "" ? [] : [element("a", { href: changed({ from: null }) }, "First page")]),
      ...(next === null ? [] : [element("a", { href: changed({ from: JSON.stringify(next) }) }, "Next page")]));
    this.offer();
  }

  row(message) {
    const box = element("input", { type: "checkbox", "aria-label": `Select message ${message.messageID}`,
      change: () => this.choose(message.messageID, box.checked) });
    this.boxes.set(message.messageID, box);
    return element("tr", {}, element("td", {}, box), element("th", { scope: "row" }, String(message.messageID)),
      element("td", {}, when(message.timestamp)), element("td", { class: "number" }, octets(message.size)),
      element("td", { class: "number" }, String(message.priority)),
      element("td", { class: "number" }, String(message.deliveryCount)), element("td", {}, states(message)),
      element("td", { class: "properties" }, properties(message)),
      element("td", {}, this.content(message.messageID)));
  }

  /** Return what shows the body of a message as soon as it is opened. */
  content(id) {
    const shown = element("div", {});
    let isAsked = false;
    const opened = async () => {
      if (isAsked || !details.open) {
        return;
      }
      isAsked = true;
      try {
        const { body } = await read(below(this.where, `messages/${id}`), new AbortController().signal);
        shown.replaceChildren(...content(body));
      } catch (error) {
        // It may be there the next time.
        isAsked = false;
        shown.replaceChildren(element("p", { class: "trouble" }, error.message));
      }
    };
    const details = element("details", { toggle: opened },
      element("summary", { "aria-label": `Body of message ${id}` }, "show"), shown);
    return details;
  }

  choose(id, isChosen) {
    if (isChosen) {
      this.chosen.add(id);
    } else {
      this.chosen.delete(id);
    }
    this.all.checked = this.chosen.size === this.boxes.size;
    this.offer();
  }

  chooseAll(isChosen) {
    for (const [id, box] of this.boxes) {
      box.checked = isChosen;
      if (isChosen) {
        this.chosen.add(id);
      }
    }
    if (!isChosen) {
      this.chosen.clear();
    }
    this.offer();
  }

  /** Learn which permissions of the user are missing, by operation. */
  forbid(missing) {
    if (JSON.stringify(missing) !== JSON.stringify(this.missing)) {
      this.missing = missing;
      this.offer();
    }
  }

  /** Offer what can be done to the messages that are chosen, or to all that match the selector. */
  offer() {
    const ids = [...this.chosen];
    const those = ids.length === 0 ? "selected" : counted(ids.length, "message");
    const kind = (operation) => (HARMLESS.has(operation) ? null : "danger");
    this.actions.replaceChildren(
      ...(this.boxes.size === 0 ? [] : TREATMENTS.map((treatment) => allow(button(`${treatment[1]} ${those}…`,
        () => this.treat(ids, ...treatment), { class: kind(treatment[0]) }),
      this.missing, treatment[0], ids.length > 0))),
      ...(this.filter === "" || this.boxes.size === 0 ? []
        : [allow(button("Move all that match…", () => this.treatMatching("moveMessages", "Move", "Moved")),
          this.missing, "moveMessages"),
        allow(button("Remove all that match…", () => this.treatMatching("removeMessages", "Remove", "Removed"),
          { class: "danger" }), this.missing, "removeMessages")]));
  }

  treat(ids, operation, verb, done, meaning) {
    const isMove = operation === "moveMessage";
    ask({
      title: `${verb} messages`,
      says: [sentence(`${counted(ids.length, "message")} of queue `, this.name, meaning)],
      fields: isMove ? [textField("queue", "To queue", { isRequired: true })] : [],
      verb: `${verb} ${counted(ids.length, "message")}`,
      isHarmless: HARMLESS.has(operation),
      isLong: ids.length > 1,
      run: async ({ queue }, signal, show) => {
        let treated = 0;
        let asked = 0;
        this.read = null;
        for (const id of ids) {
          if (signal.aborted) {
            break;
          }
          treated += await perform(this.where, operation, ...(isMove ? [id, queue] : [id])) ? 1 : 0;
          asked += 1;
          show(`${done} ${counted(treated, "message")} so far.`);
        }
        const missing = asked - treated;
        return `${done} ${counted(treated, "message")}.`
          + (missing > 0 ? ` ${counted(missing, "message")} stayed, or had left the queue before.` : "");
      },
    }, this.app);
  }

  async treatMatching(operation, verb, done) {
    const { filter } = this;
    let count;
    try {
      count = await perform(this.where, "countMessages", filter);
    } catch (error) {
      this.app.say(error.message);
      return;
    }
    const isMove = operation === "moveMessages";
    ask({
      title: `${verb} all messages that match`,
      says: [
        sentence(`${counted(count, "message")} of queue `, this.name, isMove ? MOVED : REMOVED),
        ["Selector: ", element("code", {}, filter)],
      ],
      fields: isMove ? [textField("queue", "To queue", { isRequired: true })] : [],
      verb: `${verb} ${counted(count, "message")}`,
      isHarmless: isMove,
      isLong: true,
      run: async (values, signal, show) => {
        this.read = null;
        const { treated, isComplete } = await performInParts(this.where, operation, { filter, ...values }, signal,
          (number) => show(`${done} ${counted(number, "message")} so far.`));
        return `${done} ${counted(treated, "message")}.${isComplete ? "" : " Stopped before the end."}`;
      },
    }, this.app);
  }
}

/** Return a body as elements. */
function content({ kind, length, text, data, isCut }) {
  if (kind === "none") {
    return [element("p", {}, "It has none.")];
  }
  if (kind === "large") {
    return [element("p", {}, `It is in a file of ${octets(length)}: artemis-py browse shows it.`)];
  }
  const size = kind === "bytes" ? octets(length) : counted(length, "character");
  const cut = isCut ? ", of which this is the beginning" : "";
  return [element("p", {}, kind === "unreadable" ? "It cannot be read." : `${size}${cut}`),
    element("pre", { class: "body", tabindex: "0" }, lines(text ?? hexadecimal(data)))];
}

/** Return a text whose line ends and tabs are what they are; all else that cannot be seen becomes an escape. */
function lines(text) {
  return text.split(/([\n\t])/).map((part) => (/^[\n\t]$/.test(part) ? document.createTextNode(part) : part));
}

/** Return octets as lines with their place, hexadecimal digits, and what is text of them. */
function hexadecimal(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).slice(0, DUMPED_BYTES);
  const lines = [];
  for (let start = 0; start < bytes.length; start += DUMPED_ROW) {
    const row = [...bytes.slice(start, start + DUMPED_ROW)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${start.toString(16).padStart(4, "0")}  ${digits.padEnd(3 * DUMPED_ROW)} ${letters}`);
  }
  return lines.join("\n");
}

function states(message) {
  return [
    message.durable ? badge("Durable") : null,
    message.redelivered ? badge("Redelivered", "warn") : null,
    message.largeMessage ? badge("Large") : null,
    message.unreadable ? badge("Unreadable", "warn") : null,
    message.expiration > 0 ? ["Expires ", when(message.expiration)] : null,
  ];
}

function properties(message) {
  const pairs = [
    ["Message id", message.userID], ["Sent to", message.address], ["Routing type", message.routingType],
    ...(message.unreadable ? [["Why it is unreadable", message.unreadable]] : []),
  ];
  const own = [...Object.entries(message.properties), ...Object.entries(message.annotations)];
  const text = own.map(([name, found]) => `${name}=${found}`).join(", ");
  const letters = [...text];
  const summary = letters.length > SUMMARY_LETTERS ? `${letters.slice(0, SUMMARY_LETTERS).join("")}…` : text;
  return element("details", {}, element("summary", {}, element("bdi", {}, summary || "none")),
    facts([...pairs, ...own].map(([name, found]) => [name, value(found)])));
}
