// What rhea must be able to do with the broker. One scenario per run: `node scenarios.js NAME PORT ADDRESS`;
// `--list` prints the names. A failed assertion is the exit code 1 and a stack on stderr.

import assert from "node:assert/strict";
import rhea from "rhea";
import { close, connect, drain, next, openReceiver, openSender, receive, send, sync } from "./client.js";

const bodies = (contexts) => contexts.map((context) => context.message.body);
const queue = (address) => ({ address, capabilities: ["queue"] });
const topic = (address, ...more) => ({ address, capabilities: ["topic", ...more] });

const scenarios = {
  async unsettled_messages_arrive_in_order(port, address) {
    const connection = await connect(port);
    const sender = await openSender(connection, queue(address));
    for (let index = 0; index < 100; index++) {
      assert.equal(await send(sender, { message_id: `id-${index}`, body: index }), "accepted");
    }
    const receiver = await openReceiver(connection, queue(address));
    assert.deepEqual(bodies(await drain(receiver, 200)), Array.from({ length: 100 }, (_, index) => index));
    await close(connection);
  },

  async settled_messages_arrive(port, address) {
    const connection = await connect(port);
    const sender = await openSender(connection, queue(address), { snd_settle_mode: 1 });
    for (let index = 0; index < 10; index++) sender.send({ body: index });
    await sync(connection);
    const receiver = await openReceiver(connection, queue(address), { snd_settle_mode: 1 });
    const taken = await drain(receiver);
    assert.equal(taken.length, 10);
    assert.ok(taken.every((context) => context.delivery.remote_settled));
    await close(connection);
  },

  async every_part_of_a_message_survives(port, address) {
    const connection = await connect(port);
    const sender = await openSender(connection, queue(address));
    const types = rhea.types;
    await send(sender, {
      durable: true, priority: 7, ttl: 60_000,
      message_id: "m-1", user_id: Buffer.from("someone"), to: address, subject: "subject", reply_to: "reply",
      correlation_id: "c-1", content_type: "text/plain", group_id: "group", group_sequence: 5,
      message_annotations: { "x-opt-mine": "kept" },
      application_properties: { text: "t", number: types.wrap_int(-5), flag: true, big: types.wrap_long(9007199254740991) },
      body: types.wrap_described([1, "two", { three: 3 }], types.wrap_symbol("example:list")),
    });
    const receiver = await openReceiver(connection, queue(address));
    const { message, delivery } = await receive(receiver);
    assert.equal(message.durable, true);
    assert.equal(message.priority, 7);
    assert.ok(message.ttl > 0 && message.ttl <= 60_000);
    assert.equal(message.message_id, "m-1");
    assert.equal(message.user_id.toString(), "someone");
    assert.equal(message.subject, "subject");
    assert.equal(message.reply_to, "reply");
    assert.equal(message.correlation_id, "c-1");
    assert.equal(message.group_id, "group");
    assert.equal(message.group_sequence, 5);
    assert.equal(message.message_annotations["x-opt-mine"], "kept");
    assert.deepEqual(message.application_properties, { text: "t", number: -5, flag: true, big: 9007199254740991 });
    assert.deepEqual([...message.body], [1, "two", { three: 3 }]);
    delivery.accept();
    await close(connection);
  },

  async large_message_survives(port, address) {
    const connection = await connect(port, { max_frame_size: 4096 });
    const sender = await openSender(connection, queue(address));
    const content = Buffer.alloc(3_000_000, "0123456789");
    await send(sender, { body: rhea.message.data_section(content) });
    const receiver = await openReceiver(connection, queue(address));
    const { message, delivery } = await receive(receiver);
    assert.ok(Buffer.compare(message.body.content, content) === 0);
    delivery.accept();
    await close(connection);
  },

  async released_message_comes_back(port, address) {
    const connection = await connect(port);
    await send(await openSender(connection, queue(address)), { body: "m" });
    const receiver = await openReceiver(connection, queue(address));
    (await receive(receiver)).delivery.release();
    const again = await receive(receiver);
    assert.equal(again.message.delivery_count ?? 0, 0);
    again.delivery.accept();
    await close(connection);
  },

  async failed_message_comes_back_counted(port, address) {
    const connection = await connect(port);
    await send(await openSender(connection, queue(address)), { body: "m" });
    const receiver = await openReceiver(connection, queue(address));
    (await receive(receiver)).delivery.modified({ delivery_failed: true });
    const again = await receive(receiver);
    assert.equal(again.message.delivery_count, 1);
    again.delivery.accept();
    await close(connection);
  },

  async rejected_message_is_dead_lettered(port, address) {
    const connection = await connect(port);
    await send(await openSender(connection, queue(address)), { subject: address, body: "m" });
    const receiver = await openReceiver(connection, queue(address));
    (await receive(receiver)).delivery.reject({ condition: "example:bad", description: "not mine" });
    const filter = { "jms-selector": rhea.types.wrap_described(`JMSType = '${address}'`, 0x468c00000004) };
    const dead = await openReceiver(connection, { address: "DLQ", filter });
    const { message, delivery } = await receive(dead);
    assert.equal(message.message_annotations["x-opt-ORIG-ADDRESS"], address);
    delivery.accept();
    await sync(connection);
    await close(connection);
  },

  async drain_gives_the_credit_back(port, address) {
    const connection = await connect(port);
    const receiver = await openReceiver(connection, queue(address));
    assert.deepEqual(await drain(receiver, 10), []);
    await send(await openSender(connection, queue(address)), { body: "m" });
    assert.deepEqual(bodies(await drain(receiver, 10)), ["m"]);
    await close(connection);
  },

  async subscribers_each_get_a_copy(port, address) {
    const connection = await connect(port);
    const first = await openReceiver(connection, topic(address));
    const second = await openReceiver(connection, topic(address));
    await send(await openSender(connection, topic(address)), { body: "m" });
    assert.deepEqual(bodies(await drain(first)), ["m"]);
    assert.deepEqual(bodies(await drain(second)), ["m"]);
    await close(connection);
  },

  async durable_subscription_waits_for_its_consumer(port, address) {
    const source = { ...topic(address), durable: 2, expiry_policy: "never" };
    const first = await connect(port, { container_id: `c-${address}` });
    await openReceiver(first, source, { name: "sub" });
    await close(first);
    const other = await connect(port);
    await send(await openSender(other, topic(address)), { body: "while away" });
    await close(other);
    const second = await connect(port, { container_id: `c-${address}` });
    const again = await openReceiver(second, source, { name: "sub" });
    assert.deepEqual(bodies(await drain(again)), ["while away"]);
    const closed = next(again, "receiver_close");
    again.close();
    await closed;
    await close(second);
  },

  async shared_subscribers_divide_the_messages(port, address) {
    const source = { ...topic(address, "shared", "global"), durable: 2, expiry_policy: "never" };
    const one = await connect(port);
    const two = await connect(port);
    const first = await openReceiver(one, source, { name: `s-${address}|1` });
    const second = await openReceiver(two, source, { name: `s-${address}|2` });
    const sender = await openSender(one, topic(address));
    await send(sender, { body: 1 });
    await send(sender, { body: 2 });
    const taken = [await receive(first), await receive(second)];
    assert.deepEqual(bodies(taken).sort(), [1, 2]);
    taken.forEach((context) => context.delivery.accept());
    await close(one);
    await close(two);
  },

  async selector_picks_messages(port, address) {
    const connection = await connect(port);
    const sender = await openSender(connection, queue(address));
    for (const colour of ["red", "blue", "red"]) {
      await send(sender, { application_properties: { colour }, body: colour });
    }
    const filter = rhea.filter.selector("colour = 'red'");
    const receiver = await openReceiver(connection, { ...queue(address), filter });
    assert.deepEqual(bodies(await drain(receiver)), ["red", "red"]);
    assert.ok(receiver.source.filter["jms-selector"]);
    await close(connection);
  },

  async bad_selector_is_refused(port, address) {
    const connection = await connect(port);
    const filter = rhea.filter.selector("colour = ");
    await assert.rejects(openReceiver(connection, { ...queue(address), filter }), { condition: "amqp:invalid-field" });
    await send(await openSender(connection, queue(address)), { body: "still here" });
    await close(connection);
  },

  async browser_leaves_the_messages(port, address) {
    const connection = await connect(port);
    await send(await openSender(connection, queue(address)), { body: "m" });
    const browser = await openReceiver(connection, { ...queue(address), distribution_mode: "copy" });
    assert.deepEqual(bodies(await drain(browser)), ["m"]);
    const receiver = await openReceiver(connection, queue(address));
    assert.deepEqual(bodies(await drain(receiver)), ["m"]);
    await close(connection);
  },

  async requests_are_answered_on_a_dynamic_node(port, address) {
    const client = await connect(port);
    const server = await connect(port);
    const requests = await openReceiver(server, queue(address));
    const replies = await openReceiver(client, { dynamic: true });
    await send(await openSender(client, queue(address)), {
      reply_to: replies.source.address, correlation_id: "c-1", body: "ping",
    });
    const request = await receive(requests);
    request.delivery.accept();
    const relay = await openSender(server, {});
    await send(relay, {
      to: request.message.reply_to, correlation_id: request.message.correlation_id, body: "pong",
    });
    const reply = await receive(replies);
    assert.equal(reply.message.body, "pong");
    assert.equal(reply.message.correlation_id, "c-1");
    reply.delivery.accept();
    await close(client);
    await close(server);
  },

  async relay_rejects_an_unknown_address(port, address) {
    const connection = await connect(port);
    const relay = await openSender(connection, {});
    assert.equal(await send(relay, { to: `strict.${address}`, body: "lost" }), "rejected");
    assert.equal(await send(relay, { to: address, body: "found" }), "accepted");
    await close(connection);
  },

  async unknown_address_is_not_found(port, address) {
    const connection = await connect(port);
    await assert.rejects(openReceiver(connection, `strict.${address}`), { condition: "amqp:not-found" });
    await assert.rejects(openSender(connection, `strict.${address}`), { condition: "amqp:not-found" });
    await close(connection);
  },

  async lost_connection_returns_messages(port, address) {
    const connection = await connect(port);
    await send(await openSender(connection, queue(address)), { body: "m" });
    const lost = await connect(port);
    await receive(await openReceiver(lost, queue(address)));
    lost.socket.destroy();
    const receiver = await openReceiver(connection, queue(address));
    const again = await receive(receiver);
    assert.equal(again.message.body, "m");
    again.delivery.accept();
    await sync(connection);
    await close(connection);
  },

  async heartbeats_keep_an_idle_connection(port, address) {
    const connection = await connect(port, { idle_time_out: 400 });
    const receiver = await openReceiver(connection, queue(address));
    receiver.add_credit(1);
    const arrived = next(receiver, "message", ["connection_error", "disconnected"]);
    const producer = await connect(port);
    const sender = await openSender(producer, queue(address));
    const due = rhea.types.wrap_long(1000);
    await send(sender, { message_annotations: { "x-opt-delivery-delay": due }, body: "later" });
    assert.equal((await arrived).message.body, "later");
    await close(producer);
    await close(connection);
  },

  async position_of_a_message_can_be_selected(port, address) {
    const connection = await connect(port);
    const sender = await openSender(connection, queue(address));
    for (const body of ["a", "b", "c"]) await send(sender, { body });
    const browser = await openReceiver(connection, { ...queue(address), distribution_mode: "copy" });
    const [first] = await drain(browser);
    const position = first.message.message_annotations["x-opt-sequence-number"];
    assert.equal(typeof position, "number");
    const filter = rhea.filter.selector(`amqp.annotation.x-opt-sequence-number > ${position}`);
    const rest = await openReceiver(connection, { ...queue(address), distribution_mode: "copy", filter });
    assert.deepEqual(bodies(await drain(rest)), ["b", "c"]);
    await close(connection);
  },
};

const [name, port, address] = process.argv.slice(2);
if (name === "--list") {
  console.log(Object.keys(scenarios).join("\n"));
} else {
  scenarios[name](Number(port), address).then(
    () => process.exit(0),
    (error) => {
      console.error(error.stack ?? error);
      process.exit(1);
    },
  );
}
