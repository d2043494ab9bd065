// rhea behind promises: a scenario reads as a list of steps, and a step that never happens fails by name.

import rhea from "rhea";

const STEP_TIMEOUT_MS = 20_000;

/** Resolve with the context of the next `name` event of `emitter`; reject on any of `failures`. */
export function next(emitter, name, failures = []) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${name} event`)), STEP_TIMEOUT_MS);
    const done = (settle) => (context) => {
      clearTimeout(timer);
      settle(context);
    };
    emitter.once(name, done(resolve));
    for (const failure of failures) {
      emitter.once(failure, done((context) => {
        const subject = context.receiver ?? context.sender ?? context.connection ?? emitter;
        const error = new Error(`${failure}: ${subject.error?.condition ?? ""} ${subject.error?.description ?? ""}`);
        error.condition = subject.error?.condition;
        reject(error);
      }));
    }
  });
}

/** A connection of its own container, opened. */
export async function connect(port, options = {}) {
  const container = rhea.create_container({ id: options.container_id });
  for (const failure of ["error", "sender_error", "receiver_error"]) {
    container.on(failure, () => {}); // failures reach the steps that look for them
  }
  const connection = container.connect({ host: "127.0.0.1", port, reconnect: false, ...options });
  connection.on("disconnected", () => {});
  await next(connection, "connection_open", ["connection_error", "disconnected"]);
  return connection;
}

export async function close(connection) {
  const closed = next(connection, "connection_close");
  connection.close();
  await closed;
}

export async function openSender(connection, target, options = {}) {
  const sender = connection.open_sender({ target, autosettle: false, ...options });
  await next(sender, "sender_open");
  await failIfRefused(sender);
  if (!sender.sendable()) await next(sender, "sendable");
  return sender;
}

/** A refusal is an attach with a detach right behind it: let one more exchange pass, then look. */
async function failIfRefused(link) {
  await sync(link.connection);
  if (link.error) {
    throw Object.assign(new Error(`refused: ${link.error.condition} ${link.error.description}`), {
      condition: link.error.condition,
    });
  }
}

/** Send and return the outcome: "accepted", "rejected", "released" or "modified". */
export function send(sender, message) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no outcome")), STEP_TIMEOUT_MS);
    const delivery = sender.send(message);
    const finish = (outcome) => (context) => {
      if (context.delivery === delivery) {
        clearTimeout(timer);
        delivery.update(true);
        resolve(outcome);
      }
    };
    for (const outcome of ["accepted", "rejected", "released", "modified"]) {
      sender.on(outcome, finish(outcome));
    }
  });
}

/** A receiver without automatic credit or acceptance, attached; its messages are collected. */
export async function openReceiver(connection, source, options = {}) {
  const receiver = connection.open_receiver({ source, credit_window: 0, autoaccept: false, autosettle: false, ...options });
  receiver.inbox = [];
  receiver.on("message", (context) => receiver.inbox.push(context));
  await next(receiver, "receiver_open");
  await failIfRefused(receiver);
  return receiver;
}

/** Take one message. */
export async function receive(receiver) {
  if (receiver.inbox.length === 0) {
    const arrived = next(receiver, "message");
    receiver.add_credit(1);
    await arrived;
  }
  return receiver.inbox.shift();
}

/** Everything the broker has now, at most `credit`, accepted. */
export async function drain(receiver, credit = 100) {
  const drained = next(receiver, "receiver_drained");
  receiver.drain = true;
  receiver.add_credit(credit);
  await drained;
  receiver.drain = false;
  const taken = receiver.inbox.splice(0);
  taken.forEach((context) => context.delivery.accept());
  return taken;
}

/** Return once the broker has handled all that was said on this connection so far. */
export async function sync(connection) {
  const sender = connection.open_sender({ target: {} });
  await next(sender, "sender_open");
  const closed = next(sender, "sender_close");
  sender.close();
  await closed;
}
